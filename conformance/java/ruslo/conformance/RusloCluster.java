package ruslo.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.ToIntFunction;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;

/** A cluster of Ruslo processes behind the interface by which Kafka's tests know their cluster. */
public final class RusloCluster implements ClusterInstance {
    private static final Path CLUSTERS = Path.of(System.getProperty("conformance.clusters", ""));
    private static final int SMALLEST_QUORUM_WITH_MAJORITY = 3;

    private final ClusterConfig config;
    private final boolean combined;
    private final String clusterId = Uuid.randomUuid().toString();
    private final Map<Integer, KafkaBroker> brokerStandIns = new TreeMap<>();
    private final Map<Integer, ControllerServer> controllerStandIns = new TreeMap<>();
    private final ClusterView view;
    private Map<Integer, RusloNode> nodes = Map.of();
    private Path home;
    private boolean started;
    private boolean stopped;

    public RusloCluster(ClusterConfig config, boolean combined) {
        this.config = config;
        this.combined = combined;
        view = new ClusterView(this, new NodeRequests(
            ClusterLayout.usesSasl(config.brokerSecurityProtocol()), ClusterLayout.usesSasl(config.controllerSecurityProtocol())));
    }

    ClusterView view() {
        return view;
    }

    /** The folder with the files of all nodes. */
    public Path home() {
        return home;
    }

    public void format() {
        if (home != null) {
            return;
        }
        Portability.require(config);
        try {
            home = Files.createTempDirectory(Files.createDirectories(CLUSTERS), "cluster-");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        nodes = ClusterLayout.nodes(config, combined, home);
        nodes.values().forEach(node -> node.format(clusterId, formatOptions(node)));
    }

    private List<String> formatOptions(RusloNode node) {
        List<String> options = new ArrayList<>();
        if (config.standalone()) {
            // Kafka's own test kit makes the first controller the only voter.
            options.add(node.id == firstController() ? "--standalone" : "--no-initial-controllers");
        }
        // Tests that do not choose a level get the newest of Kafka's sources, an unstable one.
        options.addAll(List.of("--feature", MetadataVersion.FEATURE_NAME + "=" + config.metadataVersion().featureLevel()));
        config.features().forEach((feature, version) ->
            options.addAll(List.of("--feature", feature.featureName() + "=" + version)));
        return options;
    }

    private int firstController() {
        return controllerNodes().mapToInt(node -> node.id).min().orElseThrow();
    }

    @Override
    public void start() {
        format();
        if (!started) {
            started = true;
            nodes.values().forEach(RusloNode::start);
            nodes.values().forEach(node -> Wait.until("node " + node.id + " listens", node::isListening));
            waitForReadyBrokers();
            MetricStandIns.show(this);
        }
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public void stop() {
        if (!stopped) {
            stopped = true;
            nodes.values().forEach(RusloNode::kill);
        }
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    /** Delete the files of all nodes. A folder that cannot be deleted stays. */
    public void deleteFiles() throws IOException {
        if (home != null) {
            try (Stream<Path> files = Files.walk(home)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
    }

    @Override
    public void startBroker(int brokerId) {
        RusloNode node = broker(brokerId);
        node.start();
        Wait.until("node " + brokerId + " listens", node::isListening);
        view.awaitServing(node);
    }

    @Override
    public void shutdownBroker(int brokerId) {
        RusloNode node = broker(brokerId);
        if (node.isController && controllerNodes().count() < SMALLEST_QUORUM_WITH_MAJORITY) {
            throw Portability.notPortable("stops the broker of a process, but not its controller");
        }
        node.stop();
    }

    @Override
    public void waitForReadyBrokers() {
        runningBrokers().forEach(view::awaitServing);
    }

    private RusloNode broker(int id) {
        return brokerNodes().filter(node -> node.id == id).findFirst()
            .orElseThrow(() -> new IllegalArgumentException("Unknown brokerId " + id));
    }

    Stream<RusloNode> brokerNodes() {
        return nodes.values().stream().filter(node -> node.isBroker);
    }

    Stream<RusloNode> controllerNodes() {
        return nodes.values().stream().filter(node -> node.isController);
    }

    List<RusloNode> runningNodes() {
        return nodes.values().stream().filter(RusloNode::isRunning).toList();
    }

    List<RusloNode> runningBrokers() {
        return brokerNodes().filter(RusloNode::isRunning).toList();
    }

    int clientPort(RusloNode node) {
        return node.ports.get(config.brokerListenerName().value());
    }

    int controllerPort(RusloNode node) {
        return node.ports.get(config.controllerListenerName().value());
    }

    @Override
    public Type type() {
        return combined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String clusterId() {
        return clusterId;
    }

    @Override
    public Set<Integer> brokerIds() {
        return brokerNodes().map(node -> node.id).collect(Collectors.toSet());
    }

    @Override
    public Set<Integer> controllerIds() {
        return controllerNodes().map(node -> node.id).collect(Collectors.toSet());
    }

    @Override
    public synchronized Map<Integer, KafkaBroker> brokers() {
        brokerNodes().forEach(node ->
            brokerStandIns.computeIfAbsent(node.id, id -> BrokerStandIn.of(this, node)));
        return new HashMap<>(brokerStandIns);
    }

    @Override
    public synchronized Map<Integer, ControllerServer> controllers() {
        controllerNodes().forEach(node ->
            controllerStandIns.computeIfAbsent(node.id, id -> ControllerStandIn.of(this, node)));
        return new HashMap<>(controllerStandIns);
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return addresses(brokerNodes(), this::clientPort);
    }

    @Override
    public String bootstrapControllers() {
        return addresses(controllerNodes(), this::controllerPort);
    }

    private static String addresses(Stream<RusloNode> nodes, ToIntFunction<RusloNode> port) {
        return nodes.map(node -> "localhost:" + port.applyAsInt(node)).collect(Collectors.joining(","));
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return brokerNodes().map(this::clientPort).toList();
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return controllerNodes().map(this::controllerPort).toList();
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        String protocols = config.serverProperties().get("group.coordinator.rebalance.protocols");
        return protocols == null || protocols.contains("consumer")
            ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public List<Authorizer> authorizers() {
        return runningBrokers().stream().map(node -> BrokerStandIn.authorizer(this, node)).toList();
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) {
        Set<AccessControlEntry> expected = new HashSet<>(entries);
        for (RusloNode node : runningBrokers()) {
            Wait.until("broker " + node.id + " has the ACLs " + expected, () -> view.acls(node, filter).stream()
                .map(AclBinding::entry).collect(Collectors.toSet()).equals(expected));
        }
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) {
        if (partitions <= 0) {
            throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
        }
        view.awaitTopic(topic, partitions);
        ensureConsistentMetadata();
    }

    @Override
    public void waitTopicDeletion(String topic) {
        view.awaitNoTopic(topic);
        ensureConsistentMetadata();
    }

    @Override
    public void ensureConsistentMetadata() {
        view.awaitMetadata();
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        view.awaitMetadata();
    }
}
