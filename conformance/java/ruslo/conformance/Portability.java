package ruslo.conformance;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.api.ClusterConfig;

import org.opentest4j.TestAbortedException;

/** Decides which tests demand what only a JVM can have. Such a test is aborted, and the reason begins with "not portable:". */
final class Portability {
    private static final Set<String> PLUGIN_KEYS = Set.of(
        "alter.config.policy.class.name", "auto.include.jmx.reporter", "client.quota.callback.class",
        "create.topic.policy.class.name", "kafka.metrics.reporters", "metric.reporters", "principal.builder.class",
        "remote.log.metadata.manager.class.name", "remote.log.storage.manager.class.name", "security.providers");
    private static final Pattern JAVA_CLASS = Pattern.compile("(org|com|io|kafka)\\.[\\w.$]+\\.[A-Z][\\w$]+");
    /** Names of Kafka's classes that Ruslo understands. */
    private static final Set<String> KNOWN_CLASSES = Set.of(
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "org.apache.kafka.server.share.persister.DefaultStatePersister");

    private Portability() { }

    static TestAbortedException notPortable(String reason) {
        return new TestAbortedException("not portable: " + reason);
    }

    static void require(ClusterConfig config) {
        for (SecurityProtocol protocol : List.of(config.brokerSecurityProtocol(), config.controllerSecurityProtocol())) {
            if (protocol != SecurityProtocol.PLAINTEXT && protocol != SecurityProtocol.SASL_PLAINTEXT) {
                throw notPortable("certificates in Java's key stores (" + protocol + ")");
            }
        }
        requireWithoutPlugins(config.serverProperties());
        config.perServerOverrideProperties().values().forEach(Portability::requireWithoutPlugins);
    }

    private static void requireWithoutPlugins(Map<String, String> properties) {
        new HashMap<>(properties).forEach((key, value) -> {
            boolean plugin = PLUGIN_KEYS.contains(key)
                || !key.endsWith(".jaas.config") && List.of(value.split(",")).stream().map(String::trim)
                    .anyMatch(each -> JAVA_CLASS.matcher(each).matches() && !KNOWN_CLASSES.contains(each));
            if (plugin) {
                throw notPortable("a plug-in written in Java (" + key + ")");
            }
        });
    }
}
