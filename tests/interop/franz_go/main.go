// Produces records to a topic with franz-go, reads them back by partition, and prints one JSON object.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type result struct {
	Values  []string `json:"values"`
	Offsets []int64  `json:"offsets"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// security is SASL_SSL with SCRAM-SHA-512 if the arguments end with CA_FILE USER PASSWORD.
func security(arguments []string) []kgo.Opt {
	if len(arguments) == 0 {
		return nil
	}
	authority, err := os.ReadFile(arguments[0])
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	login := scram.Auth{User: arguments[1], Pass: arguments[2]}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}), kgo.SASL(login.AsSha512Mechanism())}
}

func main() {
	bootstrap, topic, codec := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// franz-go's producer is idempotent unless told otherwise.
	common := append(security(os.Args[5:]), kgo.SeedBrokers(bootstrap))
	producer, err := kgo.NewClient(append(common,
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.ProducerBatchMaxBytes(4096),
	)...)
	check(err)
	for number := 0; number < count; number++ {
		producer.Produce(ctx, kgo.StringRecord(fmt.Sprintf("value-%d", number)), func(_ *kgo.Record, err error) { check(err) })
	}
	check(producer.Flush(ctx))
	producer.Close()

	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	consumer, err := kgo.NewClient(append(common, kgo.ConsumePartitions(start))...)
	check(err)
	defer consumer.Close()
	var read result
	for len(read.Values) < count {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			read.Values = append(read.Values, string(record.Value))
			read.Offsets = append(read.Offsets, record.Offset)
		})
	}
	check(json.NewEncoder(os.Stdout).Encode(read))
}
