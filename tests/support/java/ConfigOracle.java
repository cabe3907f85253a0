import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

import scala.jdk.javaapi.CollectionConverters;

/**
 * Kafka's own tables and rules of settings; each request is a line. FILE and TEXT are hexadecimal UTF-8; a
 * response has rows joined by ';' of cells joined by ',', each '=' and hexadecimal UTF-8, or '-' for null.
 *
 * <pre>
 * table broker|topic|group|producer|consumer|dynamic-only   -> name, type, default, required, valid, importance, mode
 * properties FILE                         -> key, value
 * double TEXT                             -> the number as Java prints it
 * parse TYPE TEXT                         -> the value as text, or refused
 * broker FILE                             -> the resulting topic defaults: key, value; or refused REASON
 * advertised FILE                         -> listener, protocol, host, port of brokers; then of controllers
 * topic FILE FILE                         -> accepted, or refused REASON: broker properties, topic overrides
 * group FILE FILE                         -> the same for a group
 * create BOOTSTRAP TOPIC FILE              -> the error code of a running broker
 * alter BOOTSTRAP TYPE NAME OP KEY VALUE   -> the error code; TYPE as below
 * describe BOOTSTRAP topic|broker|group NAME -> name, value, source, read-only, sensitive, type, synonyms ...
 * </pre>
 */
public final class ConfigOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static Admin admin;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            String response;
            try {
                response = "ok " + respond(line.split(" ", -1));
            } catch (Throwable e) {
                response = "refused " + row(e.getClass().getSimpleName(), e.getMessage());
            }
            System.out.println(response);
            System.out.flush();
        }
        if (admin != null)
            admin.close();
    }

    private static String respond(String[] arguments) throws Exception {
        return switch (arguments[0]) {
            case "table" -> table(arguments[1]);
            case "properties" -> rows(new TreeMap<>(properties(arguments[1])));
            case "double" -> row(Double.toString(Double.parseDouble(text(arguments[1]))));
            case "parse" -> parse(ConfigDef.Type.valueOf(arguments[1]), text(arguments[2]));
            case "broker" -> brokerDefaults(properties(arguments[1]));
            case "advertised" -> advertised(new KafkaConfig(properties(arguments[1]), false));
            case "topic" -> topic(properties(arguments[1]), properties(arguments[2]));
            case "group" -> group(properties(arguments[1]), properties(arguments[2]));
            case "create" -> create(arguments[1], arguments[2], properties(arguments[3]));
            case "alter" -> alter(arguments[1], resource(arguments[2], arguments[3]), arguments[4], arguments[5], arguments[6]);
            case "describe" -> describe(arguments[1], resource(arguments[2], arguments[3]));
            default -> throw new IllegalArgumentException("unknown request " + arguments[0]);
        };
    }

    private static String table(String resource) {
        ConfigDef keys = switch (resource) {
            case "broker" -> AbstractKafkaConfig.CONFIG_DEF;
            case "topic" -> LogConfig.configDefCopy();
            case "group" -> GroupConfig.CONFIG_DEF;
            case "producer" -> ProducerConfig.configDef();
            case "consumer" -> ConsumerConfig.configDef();
            case "dynamic-only" -> QuotaConfig.brokerQuotaConfigs();
            default -> throw new IllegalArgumentException(resource);
        };
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        StringJoiner all = new StringJoiner(";");
        for (ConfigDef.ConfigKey key : keys.configKeys().values()) {
            if (key.internalConfig)
                continue;
            String given = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            all.add(row(key.name, key.type.name(), given, Boolean.toString(!key.hasDefault()),
                key.validator == null ? "" : key.validator.toString(), key.importance.name(),
                modes.getOrDefault(key.name, "read-only")));
        }
        return all.toString();
    }

    private static String parse(ConfigDef.Type type, String value) {
        Object parsed = ConfigDef.parseType("key", value, type);
        return row(ConfigDef.convertToString(parsed, type));
    }

    private static String brokerDefaults(Properties properties) {
        Map<String, String> shown = new TreeMap<>();
        new KafkaConfig(properties, false).extractLogConfigMap().forEach((name, value) ->
            shown.put(name, value instanceof List<?> items
                ? String.join(",", items.stream().map(Object::toString).toList()) : value.toString()));
        return rows(shown);
    }

    private static String advertised(KafkaConfig config) {
        StringJoiner all = new StringJoiner(";");
        for (Endpoint e : CollectionConverters.asJava(config.effectiveAdvertisedBrokerListeners()))
            all.add(row(e.listener(), e.securityProtocol().name, e.host(), Integer.toString(e.port())));
        for (Endpoint e : CollectionConverters.asJava(config.effectiveAdvertisedControllerListeners()))
            all.add(row(e.listener(), e.securityProtocol().name, e.host(), Integer.toString(e.port())));
        return all.toString();
    }

    private static String topic(Properties broker, Properties overrides) {
        KafkaConfig config = new KafkaConfig(broker, false);
        LogConfig.validate(Map.of(), strings(overrides), config.extractLogConfigMap(),
            config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
        return "";
    }

    private static String group(Properties broker, Properties overrides) {
        KafkaConfig config = new KafkaConfig(broker, false);
        GroupConfig.validate(strings(overrides), config.groupCoordinatorConfig(), config.shareGroupConfig());
        return "";
    }

    private static String create(String bootstrap, String name, Properties overrides) throws Exception {
        NewTopic topic = new NewTopic(name, 1, (short) 1).configs(strings(overrides));
        return errorCode(admin(bootstrap).createTopics(List.of(topic)).all());
    }

    private static String alter(String bootstrap, ConfigResource resource, String op, String key, String value)
        throws Exception {
        AlterConfigOp change =
            new AlterConfigOp(new ConfigEntry(text(key), text(value)), AlterConfigOp.OpType.valueOf(op));
        return errorCode(admin(bootstrap).incrementalAlterConfigs(Map.of(resource, List.of(change))).all());
    }

    private static String describe(String bootstrap, ConfigResource resource) throws Exception {
        StringJoiner all = new StringJoiner(";");
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
        for (ConfigEntry e : admin(bootstrap).describeConfigs(List.of(resource), options).all().get().get(resource).entries()) {
            StringJoiner cells = new StringJoiner(",");
            cells.add(row(e.name(), e.value(), e.source().name(), Boolean.toString(e.isReadOnly()),
                Boolean.toString(e.isSensitive()), e.type().name()));
            e.synonyms().forEach(s -> cells.add(row(s.name(), s.value(), s.source().name())));
            all.add(cells.toString());
        }
        return all.toString();
    }

    private static ConfigResource resource(String type, String name) {
        return new ConfigResource(ConfigResource.Type.valueOf(type.toUpperCase()), name);
    }

    private static String errorCode(Future<?> future) throws Exception {
        try {
            future.get();
            return row("0");
        } catch (ExecutionException e) {
            return row(Short.toString(Errors.forException(e.getCause()).code()));
        }
    }

    private static Admin admin(String bootstrap) {
        if (admin == null)
            admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        return admin;
    }

    private static Map<String, String> strings(Properties properties) {
        Map<String, String> map = new TreeMap<>();
        properties.stringPropertyNames().forEach(name -> map.put(name, properties.getProperty(name)));
        return map;
    }

    private static Properties properties(String hex) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(text(hex)));
        return properties;
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String rows(Map<?, ?> map) {
        StringJoiner all = new StringJoiner(";");
        map.forEach((key, value) -> all.add(row((String) key, (String) value)));
        return all.toString();
    }

    private static String row(String... cells) {
        StringJoiner row = new StringJoiner(",");
        for (String cell : cells)
            row.add(cell == null ? "-" : "=" + HEX.formatHex(cell.getBytes(StandardCharsets.UTF_8)));
        return row.toString();
    }
}
