package ruslo.conformance;

import java.util.Map;
import java.util.concurrent.CompletableFuture;

import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;

import org.apache.kafka.controller.Controller;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;

import scala.Option;

/** Stands for a controller of Apache Kafka in tests that take one from their cluster. */
final class ControllerStandIn {
    private ControllerStandIn() { }

    static ControllerServer of(RusloCluster cluster, RusloNode node) {
        KafkaConfig config = StandIn.config(node);
        SocketServer sockets = StandIn.sockets(node);
        // Tests take the end of the metadata log only to wait until brokers have reached it.
        RaftLog metadataLog = StandIn.of(RaftLog.class, Map.of("endOffset", call -> {
            cluster.ensureConsistentMetadata();
            return new LogOffsetMetadata(0);
        }));
        KafkaRaftManager<?> raftManager = StandIn.of(KafkaRaftManager.class, Map.of("raftLog", call -> metadataLog));
        Controller controller = StandIn.of(Controller.class, Map.of("findAllTopicIds",
            call -> CompletableFuture.completedFuture(cluster.view().topicIds())));
        return StandIn.of(ControllerServer.class, Map.of(
            "controller", call -> controller,
            "config", call -> config,
            "clusterId", call -> cluster.clusterId(),
            "socketServer", call -> sockets,
            "authorizerPlugin", call -> Option.empty(),
            "raftManager", call -> raftManager));
    }
}
