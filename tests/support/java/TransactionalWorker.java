import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic to another exactly once, as one of several members of a group, until it is stopped or killed.
 *
 *   TransactionalWorker BOOTSTRAP INPUT OUTPUT GROUP TRANSACTIONAL_ID [KEY=VALUE of the consumer ...]
 */
public final class TransactionalWorker {
    private static final String TRANSACTION_TIMEOUT_MS = "5000";
    private static final Duration POLL = Duration.ofMillis(100);

    public static void main(String[] arguments) throws InterruptedException {
        Properties reading = new Properties();
        reading.put("bootstrap.servers", arguments[0]);
        reading.put("group.id", arguments[3]);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "20");
        for (String pair : List.of(arguments).subList(5, arguments.length)) {
            reading.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        Properties writing = new Properties();
        writing.put("bootstrap.servers", arguments[0]);
        writing.put("transactional.id", arguments[4]);
        writing.put("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS);

        AtomicBoolean stopping = new AtomicBoolean();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping.set(true);
            try {
                main.join();
            } catch (InterruptedException ended) {
                main.interrupt();
            }
        }));
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
             var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(arguments[1]));
            while (!stopping.get()) {
                // Read before the records: a member that was fenced and has rejoined while it worked on
                // them must not commit with its new epoch, because another member may own the partitions.
                ConsumerGroupMetadata membership = consumer.groupMetadata();
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) continue;
                try {
                    copy(records, arguments[2], membership, producer);
                } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
                    throw fatal;
                } catch (KafkaException abortable) {
                    producer.abortTransaction();
                    goBack(consumer);
                }
            }
        }
    }

    private static void copy(
        ConsumerRecords<String, String> records,
        String output,
        ConsumerGroupMetadata membership,
        KafkaProducer<String, String> producer
    ) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>(output, record.key(), record.value()));
            next.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(next, membership);
        producer.commitTransaction();
    }

    /** Seek to the committed offsets: this member or the new owner reads the records of the transaction again. */
    private static void goBack(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition place : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(place);
            if (offset == null) {
                consumer.seekToBeginning(List.of(place));
            } else {
                consumer.seek(place, offset);
            }
        }
    }
}
