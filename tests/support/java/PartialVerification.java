import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions whose second request has one verified partition and one that is not verified yet.
 *
 *   PartialVerification BOOTSTRAP TOPIC TRANSACTIONAL_ID TRANSACTIONS
 */
public final class PartialVerification {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Properties config = new Properties();
        config.put("bootstrap.servers", arguments[0]);
        config.put("transactional.id", arguments[2]);
        config.put("transaction.timeout.ms", "5000");
        // Records of both partitions are sent in one request.
        config.put("linger.ms", "20");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int number = 0; number < Integer.parseInt(arguments[3]); number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, "", "first " + number)).get();
                producer.send(new ProducerRecord<>(topic, 0, "", "second " + number));
                producer.send(new ProducerRecord<>(topic, 1, "", "third " + number));
                producer.flush();
                producer.commitTransaction();
            }
        }
    }
}
