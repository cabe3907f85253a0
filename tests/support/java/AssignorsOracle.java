import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Kafka's own server-side assignors and topic hashes; each request is a line with a JSON object.
 *
 * <pre>
 * {"assignor", "homogeneous", "topics": {ID: COUNT}, "members": [{"id", "instance", "topics": [ID], "current": {ID: [N]}}]}
 *     -> {"order": [ID], "assignment": {MEMBER: {ID: [N]}}}   order: of the first member's topics in Kafka
 * {"hash": [{"id", "name", "racks": [[RACK]]}]} -> {"topics": [HASH], "group": HASH}
 * </pre>
 *
 * Topic ids are hexadecimal. Members and their partitions are processed in the given order.
 */
public final class AssignorsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            JsonNode request = JSON.readTree(line);
            Object response = request.has("hash") ? hash(request.get("hash")) : assign(request);
            System.out.println(JSON.writeValueAsString(response));
            System.out.flush();
        }
    }

    private static Object assign(JsonNode request) {
        Spec spec = new Spec(request);
        PartitionAssignor assignor = switch (request.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "simple" -> new SimpleAssignor();
            default -> new UniformAssignor();
        };
        Map<String, Map<String, Set<Integer>>> assignment = new TreeMap<>();
        assignor.assign(spec, spec).members().forEach((memberId, member) -> {
            Map<String, Set<Integer>> topics = new TreeMap<>();
            member.partitions().forEach((topicId, partitions) -> topics.put(text(topicId), new TreeSet<>(partitions)));
            assignment.put(memberId, topics);
        });
        List<String> order = new ArrayList<>();
        for (Uuid topicId : new HashSet<>(spec.members.values().iterator().next().subscribedTopicIds())) {
            order.add(text(topicId));
        }
        return Map.of("order", order, "assignment", assignment);
    }

    private static Object hash(JsonNode topics) {
        Map<String, CoordinatorMetadataImage.TopicMetadata> known = new LinkedHashMap<>();
        for (JsonNode topic : topics) {
            known.put(topic.get("name").asText(), new Topic(topic));
        }
        CoordinatorMetadataImage image = new Image(known);
        List<String> hashes = new ArrayList<>();
        Map<String, Long> byName = new LinkedHashMap<>();
        for (String name : known.keySet()) {
            long hash = Utils.computeTopicHash(name, image);
            hashes.add(Long.toString(hash));
            byName.put(name, hash);
        }
        return Map.of("topics", hashes, "group", Long.toString(Utils.computeGroupHash(byName)));
    }

    private static Uuid uuid(String hexadecimal) {
        return new Uuid(
            HexFormat.fromHexDigitsToLong(hexadecimal, 0, 16), HexFormat.fromHexDigitsToLong(hexadecimal, 16, 32));
    }

    private static String text(Uuid id) {
        return HexFormat.of().toHexDigits(id.getMostSignificantBits())
            + HexFormat.of().toHexDigits(id.getLeastSignificantBits());
    }

    private record Member(Optional<String> instanceId, Set<Uuid> subscribedTopicIds, Map<Uuid, Set<Integer>> partitions)
        implements MemberSubscription, MemberAssignment {
        @Override
        public Optional<String> rackId() {
            return Optional.empty();
        }
    }

    private static final class Spec implements GroupSpec, SubscribedTopicDescriber {
        private final Map<String, Member> members = new LinkedHashMap<>();
        private final Map<Uuid, Integer> partitionCounts = new LinkedHashMap<>();
        private final boolean homogeneous;

        private Spec(JsonNode request) {
            homogeneous = request.get("homogeneous").asBoolean();
            request.get("topics").properties()
                .forEach(topic -> partitionCounts.put(uuid(topic.getKey()), topic.getValue().asInt()));
            for (JsonNode member : request.get("members")) {
                Set<Uuid> subscribed = new LinkedHashSet<>();
                member.get("topics").forEach(topic -> subscribed.add(uuid(topic.asText())));
                Map<Uuid, Set<Integer>> current = new LinkedHashMap<>();
                member.get("current").properties().forEach(topic -> {
                    Set<Integer> partitions = new LinkedHashSet<>();
                    topic.getValue().forEach(partition -> partitions.add(partition.asInt()));
                    current.put(uuid(topic.getKey()), partitions);
                });
                Optional<String> instanceId = Optional.ofNullable(member.get("instance").textValue());
                members.put(
                    member.get("id").asText(), new Member(instanceId, subscribed, Collections.unmodifiableMap(current)));
            }
        }

        @Override
        public Collection<String> memberIds() {
            return members.keySet();
        }

        @Override
        public SubscriptionType subscriptionType() {
            return homogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        }

        @Override
        public boolean isPartitionAssigned(Uuid topicId, int partition) {
            return members.values().stream()
                .anyMatch(member -> member.partitions().getOrDefault(topicId, Set.of()).contains(partition));
        }

        @Override
        public boolean isPartitionAssignable(Uuid topicId, int partition) {
            return true;
        }

        @Override
        public MemberSubscription memberSubscription(String memberId) {
            return members.get(memberId);
        }

        @Override
        public MemberAssignment memberAssignment(String memberId) {
            return members.get(memberId);
        }

        @Override
        public int numPartitions(Uuid topicId) {
            return partitionCounts.getOrDefault(topicId, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topicId, int partition) {
            return Set.of();
        }
    }

    private record Topic(String name, Uuid id, List<List<String>> racks) implements CoordinatorMetadataImage.TopicMetadata {
        private Topic(JsonNode topic) {
            this(topic.get("name").asText(), uuid(topic.get("id").asText()), new ArrayList<>());
            for (JsonNode partition : topic.get("racks")) {
                List<String> names = new ArrayList<>();
                partition.forEach(rack -> names.add(rack.asText()));
                racks.add(names);
            }
        }

        @Override
        public int partitionCount() {
            return racks.size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return racks.get(partition);
        }
    }

    private record Image(Map<String, CoordinatorMetadataImage.TopicMetadata> topics) implements CoordinatorMetadataImage {
        @Override
        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        @Override
        public Set<String> topicNames() {
            return topics.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(topics.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return topics.isEmpty();
        }
    }
}
