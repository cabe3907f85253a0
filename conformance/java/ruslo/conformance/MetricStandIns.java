package ruslo.conformance;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

import com.yammer.metrics.core.Gauge;
import com.yammer.metrics.core.Meter;
import com.yammer.metrics.core.Metric;
import com.yammer.metrics.core.MetricName;
import com.yammer.metrics.core.MetricsRegistry;

import org.apache.kafka.server.metrics.KafkaYammerMetrics;

/** Metrics in the registry of the tests' JVM whose values come from the metrics listeners of the nodes, summed. */
final class MetricStandIns {
    private static final Map<MetricName, String> METERS = Map.of(
        KafkaYammerMetrics.getMetricName("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec"),
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        KafkaYammerMetrics.getMetricName("kafka.server", "ShareGroupMetrics", "RecordAcknowledgementsPerSec",
            new LinkedHashMap<>(Map.of("ackType", "Renew"))),
        "kafka_server_sharegroupmetrics_recordacknowledgements_total{acktype=\"Renew\"}");
    private static final Map<MetricName, String> GAUGES = Map.of(
        KafkaYammerMetrics.getMetricName("kafka.controller", "KafkaController", "OfflinePartitionsCount"),
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        KafkaYammerMetrics.getMetricName("kafka.controller", "KafkaController", "PreferredReplicaImbalanceCount"),
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        KafkaYammerMetrics.getMetricName("kafka.server", "ReplicaManager", "UnderReplicatedPartitions"),
        "kafka_server_replicamanager_underreplicatedpartitions");

    private MetricStandIns() { }

    /** The metrics show this cluster until the next one is started. */
    static void show(RusloCluster cluster) {
        METERS.forEach((name, series) -> put(name, StandIn.of(Meter.class, Map.of(
            "count", call -> sum(cluster, series), "stop", call -> null))));
        GAUGES.forEach((name, series) -> put(name, new Gauge<Integer>() {
            @Override
            public Integer value() {
                return (int) sum(cluster, series);
            }
        }));
    }

    private static void put(MetricName name, Metric metric) {
        MetricsRegistry registry = KafkaYammerMetrics.defaultRegistry();
        registry.removeMetric(name);
        try {
            Method add = MetricsRegistry.class.getDeclaredMethod("getOrAdd", MetricName.class, Metric.class);
            add.setAccessible(true);
            add.invoke(registry, name, metric);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static long sum(RusloCluster cluster, String series) {
        return cluster.runningNodes().stream().mapToLong(node -> value(node, series)).sum();
    }

    private static long value(RusloNode node, String series) {
        URI uri = URI.create("http://" + node.properties.get(ClusterLayout.METRICS_LISTENER) + "/metrics");
        // An HttpClient would leave threads behind, which tests look for.
        try (InputStream response = uri.toURL().openStream()) {
            return new String(response.readAllBytes(), StandardCharsets.UTF_8).lines()
                .filter(line -> line.startsWith(series + " "))
                .mapToLong(line -> (long) Double.parseDouble(line.substring(series.length() + 1))).sum();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
