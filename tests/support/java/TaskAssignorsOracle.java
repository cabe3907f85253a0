import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/**
 * The task assignor of Kafka's group coordinator; each request is a line with a JSON object.
 *
 * <pre>
 * {"standbys", "subtopologies": {ID: {"partitions", "stateful"}},
 *  "members": [{"id", "process", "active": {ID: [N]}, "standby": {ID: [N]}}]}
 *     -> {MEMBER: {"active": {ID: [N]}, "standby": {ID: [N]}}}
 * </pre>
 *
 * As in the coordinator, members and processes are processed in the order of hash maps.
 */
public final class TaskAssignorsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
            System.out.flush();
        }
    }

    private static Object assign(JsonNode request) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : request.get("members")) {
            members.put(member.get("id").asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.get("active")), tasks(member.get("standby")), Map.of(),
                member.get("process").asText(), Map.of(), Map.of(), Map.of()));
        }
        Map<String, String> configs = Map.of("num.standby.replicas", request.get("standbys").asText());
        Map<String, Map<String, Object>> assignment = new TreeMap<>();
        new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), new Topology(request.get("subtopologies")))
            .members().forEach((memberId, member) -> assignment.put(
                memberId, Map.of("active", sorted(member.activeTasks()), "standby", sorted(member.standbyTasks()))));
        return assignment;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
        node.properties().forEach(subtopology -> {
            Set<Integer> partitions = new HashSet<>();
            subtopology.getValue().forEach(partition -> partitions.add(partition.asInt()));
            tasks.put(subtopology.getKey(), partitions);
        });
        return tasks;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> sorted = new TreeMap<>();
        tasks.forEach((subtopology, partitions) -> sorted.put(subtopology, new TreeSet<>(partitions)));
        return sorted;
    }

    private record Topology(JsonNode subtopologiesById) implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            List<String> ids = new ArrayList<>();
            subtopologiesById.fieldNames().forEachRemaining(ids::add);
            return ids;
        }

        @Override
        public int maxNumInputPartitions(String subtopologyId) {
            return subtopologiesById.get(subtopologyId).get("partitions").asInt();
        }

        @Override
        public boolean isStateful(String subtopologyId) {
            return subtopologiesById.get(subtopologyId).get("stateful").asBoolean();
        }
    }
}
