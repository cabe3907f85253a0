import java.io.FileReader;
import java.util.Properties;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer that sends records until it has authenticated again as often as asked, then prints its metrics of log-ins.
 *
 *   SecuredClient PROPERTIES_FILE TOPIC REAUTHENTICATIONS
 *
 * It prints "connections N, reauthentications N, failed N", or the error that ended it.
 */
public final class SecuredClient {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            config.load(file);
        }
        double wanted = Double.parseDouble(arguments[2]);
        config.putIfAbsent("max.block.ms", "20000");
        config.put("enable.idempotence", "false");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            do {
                producer.send(new ProducerRecord<>(arguments[1], "record")).get();
            } while (metric(producer, "successful-reauthentication-total") < wanted);
            System.out.printf(
                "connections %.0f, reauthentications %.0f, failed %.0f%n",
                metric(producer, "successful-authentication-total"),
                metric(producer, "successful-reauthentication-total"),
                metric(producer, "failed-reauthentication-total") + metric(producer, "failed-authentication-total"));
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.out.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
    }

    private static double metric(KafkaProducer<String, String> producer, String name) {
        return producer.metrics().entrySet().stream()
            .filter(entry -> entry.getKey().name().equals(name) && entry.getKey().group().equals("producer-metrics"))
            .mapToDouble(entry -> ((Number) entry.getValue().metricValue()).doubleValue())
            .sum();
    }
}
