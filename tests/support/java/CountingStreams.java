import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts how often each value occurs, exactly once: the values become keys (which takes a repartition topic), the
 * counts are a store with a changelog, and every new count is written to the output.
 *
 *   CountingStreams BOOTSTRAP APPLICATION_ID INPUT OUTPUT STATE_DIRECTORY [KEY=VALUE...]
 *
 * The pairs are more settings of Kafka Streams, such as group.protocol=streams.
 */
public final class CountingStreams {
    public static void main(String[] arguments) throws InterruptedException {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        // Without a cache every count is written, so a missing or duplicate count is visible.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 3000);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (int at = 5; at < arguments.length; at++) {
            String[] pair = arguments[at].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        if (!"streams".equals(config.get(StreamsConfig.GROUP_PROTOCOL_CONFIG))) {
            // The streams protocol takes them from the brokers.
            config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 2000);
            config.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 200);
        }

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, value) -> value)
            .groupByKey(Grouped.with("by-value", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) ended.countDown();
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        ended.await();
        Runtime.getRuntime().halt(1);
    }
}
