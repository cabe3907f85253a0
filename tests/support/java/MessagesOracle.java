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

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Kafka's own message codecs, asked one line of JSON at a time.
 *
 * <pre>
 * {"op": "encode", "name": N, "version": V, "json": {...}} -> {"hex": H}
 * {"op": "decode", "name": N, "version": V, "hex": H}      -> {"json": {...}, "hex": what encoding it again gives}
 * {"op": "defaults", "name": N, "version": V}              -> {"structs": {struct name: H of a new one, ...}}
 * {"op": "schema", "name": N}                              -> {"versions": {"0": [[name, type], ...], ...}}
 * {"op": "apis"}                                           -> {"apis": [...]}
 * </pre>
 *
 * Anything that fails answers {"error": text}.
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
            ObjectNode answer = NODES.objectNode();
            try {
                answer(MAPPER.readTree(line), answer);
            } catch (InvocationTargetException e) {
                answer.put("error", e.getCause().toString());
            } catch (Exception e) {
                answer.put("error", e.toString());
            }
            out.println(MAPPER.writeValueAsString(answer));
            out.flush();
        }
    }

    private static void answer(JsonNode question, ObjectNode answer) throws Exception {
        String name = question.path("name").asText();
        short version = (short) question.path("version").asInt();
        switch (question.get("op").asText()) {
            case "encode" -> answer.put("hex", encode(fromJson(name, question.get("json"), version), version));
            case "decode" -> {
                Message message = (Message) classOf(name).getConstructor().newInstance();
                ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(question.get("hex").asText()));
                message.read(new ByteBufferAccessor(bytes), version);
                if (bytes.hasRemaining())
                    throw new IllegalArgumentException(bytes.remaining() + " bytes left");
                answer.set("json", toJson(name, message, version));
                answer.put("hex", encode(message, version));
            }
            case "defaults" -> answer.set("structs", defaults(classOf(name), version));
            case "schema" -> answer.set("versions", schemas(classOf(name)));
            case "apis" -> answer.set("apis", apis());
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
                // it lives elsewhere
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
