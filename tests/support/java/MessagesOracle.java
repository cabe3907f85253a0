import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Kafka's own message codecs; each request is a line of JSON.
 *
 * <pre>
 * {"op": "encode", "name": N, "version": V, "json": {...}} -> {"hex": H}
 * {"op": "decode", "name": N, "version": V, "hex": H}      -> {"json": {...}, "hex": the result of encoding it again}
 * {"op": "defaults", "name": N, "version": V}              -> {"structs": {struct name: H of a new struct, ...}}
 * {"op": "schema", "name": N}                              -> {"versions": {"0": [[name, type], ...], ...}}
 * {"op": "apis"}                                           -> {"apis": [...]}
 * {"op": "errors"}                                         -> {"errors": [[code, name, retriable], ...]}
 * </pre>
 *
 * The response to a failed request is {"error": text}.
 */
public final class MessagesOracle {
    private static final String[] HOMES = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.common.metadata.%s",
        "org.apache.kafka.raft.generated.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.coordinator.share.generated.%s",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.%s",
    };
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();
    private static final Map<String, Method> READERS = new HashMap<>();
    private static final Map<String, Method> WRITERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null) {
            ObjectNode response = NODES.objectNode();
            try {
                respond(MAPPER.readTree(line), response);
            } catch (InvocationTargetException e) {
                response.put("error", e.getCause().toString());
            } catch (Exception e) {
                response.put("error", e.toString());
            }
            out.println(MAPPER.writeValueAsString(response));
            out.flush();
        }
    }

    private static void respond(JsonNode request, ObjectNode response) throws Exception {
        String name = request.path("name").asText();
        short version = (short) request.path("version").asInt();
        switch (request.get("op").asText()) {
            case "encode" -> response.put("hex", encode(fromJson(name, request.get("json"), version), version));
            case "decode" -> {
                Message message = (Message) classOf(name).getConstructor().newInstance();
                ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(request.get("hex").asText()));
                message.read(new ByteBufferAccessor(bytes), version);
                if (bytes.hasRemaining())
                    throw new IllegalArgumentException(bytes.remaining() + " bytes left");
                response.set("json", toJson(name, message, version));
                response.put("hex", encode(message, version));
            }
            case "defaults" -> response.set("structs", defaults(classOf(name), version));
            case "schema" -> response.set("versions", schemas(classOf(name)));
            case "apis" -> response.set("apis", apis());
            case "errors" -> response.set("errors", errors());
            default -> throw new IllegalArgumentException("unknown op");
        }
    }

    private static Class<?> classOf(String name) throws ClassNotFoundException {
        Class<?> known = CLASSES.get(name);
        if (known != null)
            return known;
        for (String home : HOMES) {
            try {
                Class<?> found = Class.forName(String.format(home, name));
                if (Message.class.isAssignableFrom(found)) {
                    CLASSES.put(name, found);
                    return found;
                }
            } catch (ClassNotFoundException e) {
                // it is in another package
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static Message fromJson(String name, JsonNode json, short version) throws Exception {
        Method read = READERS.get(name);
        if (read == null) {
            Class<?> converter = Class.forName(classOf(name).getName() + "JsonConverter");
            read = converter.getMethod("read", JsonNode.class, short.class);
            READERS.put(name, read);
        }
        return (Message) read.invoke(null, json, version);
    }

    private static JsonNode toJson(String name, Message message, short version) throws Exception {
        Method write = WRITERS.get(name);
        if (write == null) {
            Class<?> converter = Class.forName(classOf(name).getName() + "JsonConverter");
            write = converter.getMethod("write", classOf(name), short.class);
            WRITERS.put(name, write);
        }
        return (JsonNode) write.invoke(null, message, version);
    }

    private static String encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return HEX.formatHex(bytes.array(), 0, bytes.position());
    }

    private static ObjectNode defaults(Class<?> message, short version) throws Exception {
        ObjectNode structs = NODES.objectNode();
        structs.put("", encode((Message) message.getConstructor().newInstance(), version));
        for (Class<?> struct : message.getDeclaredClasses()) {
            if (!Message.class.isAssignableFrom(struct))
                continue;
            try {
                structs.put(struct.getSimpleName(), encode((Message) struct.getConstructor().newInstance(), version));
            } catch (RuntimeException e) {
                structs.putNull(struct.getSimpleName());
            }
        }
        return structs;
    }

    private static ObjectNode schemas(Class<?> message) throws Exception {
        Schema[] schemas = (Schema[]) message.getField("SCHEMAS").get(null);
        ObjectNode versions = NODES.objectNode();
        for (int version = 0; version < schemas.length; version++) {
            if (schemas[version] != null)
                versions.set(Integer.toString(version), describe(schemas[version]));
        }
        return versions;
    }

    private static ArrayNode describe(Schema schema) {
        ArrayNode fields = NODES.arrayNode();
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                for (Map.Entry<Integer, Field> entry : new TreeMap<>(tagged.fields()).entrySet())
                    fields.add(pair(entry.getValue(), "tag " + entry.getKey() + " "));
            } else {
                fields.add(pair(field.def, ""));
            }
        }
        return fields;
    }

    private static ArrayNode pair(Field field, String prefix) {
        ArrayNode pair = NODES.arrayNode();
        pair.add(field.name);
        pair.add(prefix + typeText(field.type));
        Schema struct = structOf(field.type);
        if (struct != null)
            pair.add(describe(struct));
        return pair;
    }

    private static String typeText(Type type) {
        if (type.isArray())
            return (type.isNullable() ? "nullable " : "") + type.getClass().getSimpleName()
                + " " + typeText(type.arrayElementType().get());
        if (type instanceof Schema)
            return type.isNullable() ? "nullable struct" : "struct";
        return type.toString();
    }

    private static Schema structOf(Type type) {
        if (type.isArray())
            return structOf(type.arrayElementType().get());
        return type instanceof Schema schema ? schema : null;
    }

    private static ArrayNode errors() {
        ArrayNode errors = NODES.arrayNode();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            errors.addArray().add(error.code()).add(error.name()).add(retriable);
        }
        return errors;
    }

    private static ArrayNode apis() {
        ArrayNode apis = NODES.arrayNode();
        for (ApiMessageType type : ApiMessageType.values()) {
            ApiKeys key = ApiKeys.forId(type.apiKey());
            ObjectNode api = apis.addObject();
            api.put("key", type.apiKey());
            api.put("name", type.name);
            api.put("lowest", type.lowestSupportedVersion());
            api.put("highestStable", type.highestSupportedVersion(false));
            api.put("highest", type.highestSupportedVersion(true));
            api.put("forwardable", key.forwardable);
            api.put("clusterAction", key.clusterAction);
            ArrayNode listeners = api.putArray("listeners");
            type.listeners().stream().map(Enum::name).sorted().forEach(listeners::add);
            ArrayNode requestHeaders = api.putArray("requestHeaders");
            ArrayNode responseHeaders = api.putArray("responseHeaders");
            for (short version = 0; version <= type.highestSupportedVersion(true); version++) {
                requestHeaders.add(type.requestHeaderVersion(version));
                responseHeaders.add(type.responseHeaderVersion(version));
            }
        }
        return apis;
    }
}
