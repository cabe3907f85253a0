import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's own StandardAuthorizer; each request is a line with a JSON object.
 *
 * <pre>
 * {"everyone": BOOLEAN, "superUsers": "User:a;User:b",
 *  "acls": [[RESOURCE_TYPE, NAME, PATTERN_TYPE, PRINCIPAL, HOST, OPERATION, PERMISSION]],
 *  "requests": [[PRINCIPAL_TYPE, PRINCIPAL_NAME, HOST, OPERATION, RESOURCE_TYPE, NAME or null]]} -> "AD..."
 * </pre>
 *
 * One letter per request: A for allowed, D for denied. A request without a name asks for any resource of the type
 * (authorizeByResourceType). Types and operations are Kafka's codes.
 */
public final class AuthorizerOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<List<String>, StandardAuthorizer> AUTHORIZERS = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            System.out.println(decide(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static String decide(JsonNode request) throws Exception {
        StandardAuthorizer authorizer = AUTHORIZERS.computeIfAbsent(
            List.of(request.get("superUsers").asText(), request.get("everyone").asText()), AuthorizerOracle::create);
        Map<Uuid, StandardAcl> acls = new LinkedHashMap<>();
        for (JsonNode acl : request.get("acls")) {
            acls.put(new Uuid(7, acls.size()), new StandardAcl(
                ResourceType.fromCode((byte) acl.get(0).asInt()),
                acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt()),
                acl.get(3).asText(),
                acl.get(4).asText(),
                AclOperation.fromCode((byte) acl.get(5).asInt()),
                AclPermissionType.fromCode((byte) acl.get(6).asInt())));
        }
        authorizer.loadSnapshot(acls);
        StringBuilder decisions = new StringBuilder();
        for (JsonNode each : request.get("requests")) {
            boolean allowed = decide(authorizer, each) == AuthorizationResult.ALLOWED;
            decisions.append(allowed ? 'A' : 'D');
        }
        return decisions.toString();
    }

    private static AuthorizationResult decide(StandardAuthorizer authorizer, JsonNode request) throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal(request.get(0).asText(), request.get(1).asText());
        Context context = new Context(principal, InetAddress.getByName(request.get(2).asText()));
        AclOperation operation = AclOperation.fromCode((byte) request.get(3).asInt());
        ResourceType type = ResourceType.fromCode((byte) request.get(4).asInt());
        if (request.get(5).isNull()) {
            return authorizer.authorizeByResourceType(context, operation, type);
        }
        ResourcePattern resource = new ResourcePattern(type, request.get(5).asText(), PatternType.LITERAL);
        return authorizer.authorize(context, List.of(new Action(operation, resource, 1, false, false))).get(0);
    }

    private static StandardAuthorizer create(List<String> settings) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            StandardAuthorizer.SUPER_USERS_CONFIG, settings.get(0),
            StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, settings.get(1)));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        return authorizer;
    }

    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return ApiKeys.METADATA.id;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
