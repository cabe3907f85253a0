package ruslo.conformance;

import java.util.HashMap;
import java.util.Map;

import kafka.network.SocketServer;
import kafka.server.KafkaConfig;

import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;

import scala.Option;

/**
 * Objects that stand for parts of a node in another process. They respond to the calls that requests to the node can
 * answer. Any other call aborts the test: it needs the part itself, in its own JVM.
 */
final class StandIn {
    private StandIn() { }

    static <T> T of(Class<T> type, Map<String, Answer<?>> calls) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            String method = call.getMethod().getName();
            Answer<?> answer = calls.get(method);
            return answer != null ? answer.answer(call) : answerOfObject(type, method, call);
        }));
    }

    private static Object answerOfObject(Class<?> type, String method, InvocationOnMock call) {
        return switch (method) {
            case "toString" -> type.getSimpleName() + " in another process";
            case "hashCode" -> System.identityHashCode(call.getMock());
            case "equals" -> call.getMock() == call.getArgument(0);
            default -> throw Portability.notPortable("needs " + type.getSimpleName() + "." + method + " of Kafka's own broker");
        };
    }

    static <T> Option<T> option(boolean defined, T value) {
        return defined ? Option.apply(value) : Option.empty();
    }

    static KafkaConfig config(RusloNode node) {
        Map<String, String> properties = new HashMap<>(node.properties);
        properties.keySet().removeIf(key -> key.startsWith("ruslo."));
        // Tests that send all versions of a request then leave out those that Kafka has not released.
        properties.put("unstable.api.versions.enable", "false");
        return new KafkaConfig(properties, false);
    }

    static SocketServer sockets(RusloNode node) {
        return of(SocketServer.class, Map.of("config", call -> config(node), "boundPort", call -> {
            String listener = call.getArgument(0).toString().replaceAll("^ListenerName\\(|\\)$", "");
            return node.ports.get(listener);
        }));
    }
}
