package ruslo.conformance;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.TestKitDefaults;

/** The nodes of a cluster and their properties, as a test's ClusterConfig asks for them. */
final class ClusterLayout {
    private static final String LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
        + "username=\"%1$s\" password=\"%2$s\" user_%1$s=\"%2$s\" user_%3$s=\"%4$s\";";

    private final ClusterConfig config;
    private final Path home;
    private final Set<Integer> brokerIds;
    private final Map<Integer, Integer> controllerPorts = new TreeMap<>();

    private ClusterLayout(ClusterConfig config, boolean combined, Path home) {
        this.config = config;
        this.home = home;
        brokerIds = ids(TestKitDefaults.BROKER_ID_OFFSET, config.numBrokers());
        int firstController = TestKitDefaults.BROKER_ID_OFFSET + (combined ? 0 : TestKitDefaults.CONTROLLER_ID_OFFSET);
        ids(firstController, config.numControllers()).forEach(id -> controllerPorts.put(id, Ports.free()));
    }

    static Map<Integer, RusloNode> nodes(ClusterConfig config, boolean combined, Path home) {
        ClusterLayout layout = new ClusterLayout(config, combined, home);
        Set<Integer> all = new TreeSet<>(layout.brokerIds);
        all.addAll(layout.controllerPorts.keySet());
        Map<Integer, RusloNode> nodes = new TreeMap<>();
        all.forEach(id -> nodes.put(id, layout.node(id)));
        return nodes;
    }

    private static Set<Integer> ids(int first, int count) {
        return IntStream.range(first, first + count).boxed().collect(Collectors.toCollection(TreeSet::new));
    }

    private RusloNode node(int id) {
        boolean isBroker = brokerIds.contains(id);
        boolean isController = controllerPorts.containsKey(id);
        String roles = isBroker && isController ? "broker,controller" : isBroker ? "broker" : "controller";
        Map<String, String> properties = new HashMap<>(config.serverProperties());
        List<String> dirs = IntStream.range(0, isBroker ? config.numDisksPerBroker() : 1)
            .mapToObj(disk -> home.resolve("node-" + id + "-" + disk).toString()).toList();
        properties.put("process.roles", roles);
        properties.put("node.id", Integer.toString(id));
        properties.put("log.dirs", String.join(",", dirs));
        properties.put("metadata.log.dir", dirs.get(0));
        if (isBroker) {
            properties.remove("controller.quorum.auto.join.enable");
        }
        addQuorum(properties);
        addListeners(properties, isBroker, isController);
        if (isBroker && usesSasl(config.brokerSecurityProtocol())
                || isController && usesSasl(config.controllerSecurityProtocol())) {
            addLogins(properties);
        }
        properties.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
        // Defaults of Kafka's own test kit. A test relies on the limit that the first sets for log.cleaner.threads.
        properties.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152");
        keepShareState(properties);
        properties.putIfAbsent("unstable.api.versions.enable", "true");
        properties.putIfAbsent("unstable.feature.versions.enable", "true");
        properties.putIfAbsent("ruslo.metrics.listener", "");
        return new RusloNode(id, home, properties, bindListeners(properties, id));
    }

    private void addQuorum(Map<String, String> properties) {
        if (config.standalone()) {
            properties.put("controller.quorum.bootstrap.servers", controllerPorts.values().stream()
                .map(port -> "localhost:" + port).collect(Collectors.joining(",")));
        } else {
            properties.put("controller.quorum.voters", controllerPorts.entrySet().stream()
                .map(each -> each.getKey() + "@localhost:" + each.getValue()).collect(Collectors.joining(",")));
        }
    }

    /** Tests without a persister need no topic for the state of share groups. Ruslo always has one, which one broker can hold. */
    private static void keepShareState(Map<String, String> properties) {
        String persister = properties.remove("group.share.persister.class.name");
        if (persister != null && persister.isEmpty()) {
            properties.putIfAbsent("share.coordinator.state.topic.replication.factor", "1");
            properties.putIfAbsent("share.coordinator.state.topic.min.isr", "1");
            properties.putIfAbsent("share.coordinator.state.topic.num.partitions", "1");
        }
    }

    private void addListeners(Map<String, String> properties, boolean isBroker, boolean isController) {
        String brokerListener = config.brokerListenerName().value();
        String controllerListener = config.controllerListenerName().value();
        List<String> listeners = new ArrayList<>();
        if (isBroker) {
            listeners.add(brokerListener + "://localhost:0");
        }
        if (isController) {
            listeners.add(controllerListener + "://localhost:0");
        }
        properties.putIfAbsent("listeners", String.join(",", listeners));
        properties.putIfAbsent("inter.broker.listener.name", brokerListener);
        properties.putIfAbsent("controller.listener.names", controllerListener);
        properties.putIfAbsent("listener.security.protocol.map",
            brokerListener + ":" + config.brokerSecurityProtocol() + ","
                + controllerListener + ":" + config.controllerSecurityProtocol());
    }

    /**
     * Users and an authorizer, as Kafka's own test kit has them, where the users come from a JAAS file of the JVM.
     * Controllers without log-ins have no authorizer either.
     */
    private void addLogins(Map<String, String> properties) {
        properties.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
        properties.putIfAbsent("sasl.mechanism.inter.broker.protocol", "PLAIN");
        properties.putIfAbsent("sasl.mechanism.controller.protocol", "PLAIN");
        properties.putIfAbsent("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        properties.putIfAbsent("allow.everyone.if.no.acl.found", "false");
        properties.putIfAbsent("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        String login = LOGIN.formatted(JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
            JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD);
        for (ListenerName listener : List.of(config.brokerListenerName(), config.controllerListenerName())) {
            properties.putIfAbsent(listener.configPrefix() + "plain.sasl.jaas.config", login);
        }
    }

    static boolean usesSasl(SecurityProtocol protocol) {
        return protocol == SecurityProtocol.SASL_PLAINTEXT;
    }

    /** Replace port 0 of each listener. Returns the ports by the name of their listener. */
    private Map<String, Integer> bindListeners(Map<String, String> properties, int id) {
        Map<String, Integer> ports = new LinkedHashMap<>();
        List<String> listeners = new ArrayList<>();
        for (String listener : properties.get("listeners").split(",")) {
            int colon = listener.lastIndexOf(':');
            String name = listener.substring(0, listener.indexOf("://")).trim();
            int port = Integer.parseInt(listener.substring(colon + 1).trim());
            if (port == 0) {
                boolean ofController = name.equals(config.controllerListenerName().value());
                port = ofController && controllerPorts.containsKey(id) ? controllerPorts.get(id) : Ports.free();
            }
            ports.put(name, port);
            listeners.add(listener.substring(0, colon + 1) + port);
        }
        properties.put("listeners", String.join(",", listeners));
        return ports;
    }
}
