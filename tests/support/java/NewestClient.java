import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies records of a topic in one transaction, with their offsets, then deletes the group: while it has a member and
 * afterwards. Prints the result of each deletion, and why a controller cannot be unregistered.
 *
 *   NewestClient BOOTSTRAP INPUT OUTPUT GROUP RECORDS
 */
public final class NewestClient {
    public static void main(String[] arguments) throws Exception {
        String group = arguments[3];
        int expected = Integer.parseInt(arguments[4]);
        Properties common = new Properties();
        common.put("bootstrap.servers", arguments[0]);
        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("group.id", group);
        reading.put("group.protocol", "consumer");
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        Properties writing = new Properties();
        writing.putAll(common);
        writing.put("transactional.id", group);
        try (var admin = Admin.create(common)) {
            try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
                 var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
                producer.initTransactions();
                consumer.subscribe(List.of(arguments[1]));
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (int copied = 0; copied < expected;) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        producer.send(new ProducerRecord<>(arguments[2], record.key(), record.value()));
                        var source = new TopicPartition(record.topic(), record.partition());
                        next.put(source, new OffsetAndMetadata(record.offset() + 1));
                        copied++;
                    }
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                producer.commitTransaction();
                System.out.println(delete(admin, group));
            }
            System.out.println(delete(admin, group));
            try {
                // This file is compiled with the classes of 4.3, which do not have the method.
                Object result = Admin.class.getMethod("unregisterController", int.class).invoke(admin, 7);
                ((KafkaFuture<?>) result.getClass().getMethod("all").invoke(result)).get();
            } catch (ExecutionException refused) {
                System.out.println(refused.getCause().getClass().getSimpleName());
            }
        }
    }

    private static String delete(Admin admin, String group) throws InterruptedException {
        try {
            admin.deleteConsumerGroups(List.of(group)).all().get();
            return "deleted";
        } catch (ExecutionException refused) {
            return refused.getCause().getClass().getSimpleName() + ": " + refused.getCause().getMessage();
        }
    }
}
