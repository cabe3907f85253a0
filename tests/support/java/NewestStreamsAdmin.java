import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;

/**
 * Prints the description of a streams group with what Apache Kafka 4.4 added: the assignor, the status of the topology
 * description, and the description. Compiled with older classes, it finds the new methods by name.
 *
 *   NewestStreamsAdmin BOOTSTRAP GROUP
 */
public final class NewestStreamsAdmin {
    public static void main(String[] arguments) throws Exception {
        var options = new DescribeStreamsGroupsOptions();
        DescribeStreamsGroupsOptions.class.getMethod("includeTopologyDescription", boolean.class).invoke(options, true);
        try (var admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var described = admin.describeStreamsGroups(List.of(arguments[1]), options).all().get().get(arguments[1]);
            for (String name : List.of("assignorName", "topologyDescriptionStatus", "topologyDescription")) {
                System.out.println(StreamsGroupDescription.class.getMethod(name).invoke(described));
            }
        }
    }
}
