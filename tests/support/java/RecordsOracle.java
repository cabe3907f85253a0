import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Supplier;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.LeaderChangeMessage.Voter;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Kafka's own reader, builder and leader-side validator of record batches; each request is a line.
 *
 * <pre>
 * read BATCH                                                    -> ok RECORDS
 * build CODEC BASE_OFFSET PID EPOCH SEQUENCE TXN RECORDS        -> ok BATCH
 * marker OFFSET TIME LEADER_EPOCH PID EPOCH COMMIT COORDINATOR  -> ok BATCH
 * control KIND                                                  -> ok VALUE of a fixed example
 * validate CODEC TIMESTAMP_TYPE BEFORE AFTER COMPACTED NOW BATCH -> ok TIME BATCH | refused CODE INDEXES
 * </pre>
 *
 * BATCH is hexadecimal; RECORDS is offset|time|key|value|name=value,... joined by ';' with '-' for null.
 */
public final class RecordsOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            String response;
            try {
                response = respond(line.split(" "));
            } catch (RecordValidationException e) {
                List<String> indexes = new ArrayList<>();
                e.recordErrors().forEach(error -> indexes.add(Integer.toString(error.batchIndex)));
                response = "refused " + Errors.forException(e.invalidException()) + " " + String.join(",", indexes);
            } catch (Exception e) {
                response = "refused " + Errors.forException(e) + " ";
            }
            System.out.println(response);
            System.out.flush();
        }
    }

    private static String respond(String[] arguments) {
        switch (arguments[0]) {
            case "read":
                return "ok " + read(arguments[1]);
            case "build":
                return "ok " + hex(MemoryRecords.withRecords((byte) 2, Long.parseLong(arguments[2]), compression(arguments[1]),
                    TimestampType.CREATE_TIME, Long.parseLong(arguments[3]), Short.parseShort(arguments[4]),
                    Integer.parseInt(arguments[5]), -1, Boolean.parseBoolean(arguments[6]), parse(arguments[7])));
            case "marker":
                ControlRecordType type = Boolean.parseBoolean(arguments[6]) ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
                return "ok " + hex(MemoryRecords.withEndTransactionMarker(Long.parseLong(arguments[1]),
                    Long.parseLong(arguments[2]), Integer.parseInt(arguments[3]), Long.parseLong(arguments[4]),
                    Short.parseShort(arguments[5]), new EndTransactionMarker(type, Integer.parseInt(arguments[7]))));
            case "control":
                return "ok " + control(arguments[1]);
            case "validate":
                return validate(arguments);
            default:
                throw new IllegalStateException("unknown request " + arguments[0]);
        }
    }

    private static String control(String kind) {
        Uuid directory = new Uuid(0x0001020304050607L, 0x08090a0b0c0d0e0fL);
        switch (kind) {
            case "leader_change":
                return value(new LeaderChangeMessage().setVersion((short) 0).setLeaderId(3)
                    .setVoters(List.of(new Voter().setVoterId(1), new Voter().setVoterId(3)))
                    .setGrantingVoters(List.of(new Voter().setVoterId(3))), (short) 0);
            case "leader_change_1":
                return value(new LeaderChangeMessage().setVersion((short) 1).setLeaderId(3)
                    .setVoters(List.of(new Voter().setVoterId(3).setVoterDirectoryId(directory)))
                    .setGrantingVoters(List.of(new Voter().setVoterId(3).setVoterDirectoryId(directory))), (short) 1);
            case "snapshot_header":
                return value(new SnapshotHeaderRecord().setVersion((short) 0).setLastContainedLogTimestamp(77), (short) 0);
            case "snapshot_footer":
                return value(new SnapshotFooterRecord().setVersion((short) 0), (short) 0);
            case "kraft_version":
                return value(new KRaftVersionRecord().setVersion((short) 0).setKRaftVersion((short) 1), (short) 0);
            case "voters":
                VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
                endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("localhost").setPort(40000));
                return value(new VotersRecord().setVersion((short) 0).setVoters(List.of(new VotersRecord.Voter()
                    .setVoterId(1).setVoterDirectoryId(directory).setEndpoints(endpoints)
                    .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                        .setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1)))), (short) 0);
            default:
                throw new IllegalStateException("unknown control record " + kind);
        }
    }

    private static String value(Message message, short version) {
        return buffer(MessageUtil.toByteBufferAccessor(message, version).buffer());
    }

    private static String read(String batches) {
        List<String> found = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(unhex(batches)).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                List<String> headers = new ArrayList<>();
                for (Header header : record.headers())
                    headers.add(header.key() + "=" + bytes(header.value()));
                found.add(record.offset() + "|" + record.timestamp() + "|" + buffer(record.key()) + "|"
                    + buffer(record.value()) + "|" + String.join(",", headers));
            }
        }
        return String.join(";", found);
    }

    private static String validate(String[] arguments) {
        MemoryRecords records = MemoryRecords.readableRecords(unhex(arguments[7]));
        CompressionType source = records.batches().iterator().next().compressionType();
        Compression target = arguments[1].equals("producer") ? Compression.of(source).build() : compression(arguments[1]);
        LogValidator validator = new LogValidator(records, new TopicPartition("t", 0),
            new FixedTime(Long.parseLong(arguments[6])), source, target, Boolean.parseBoolean(arguments[5]), (byte) 2,
            TimestampType.forName(arguments[2]), Long.parseLong(arguments[3]), Long.parseLong(arguments[4]), 0,
            AppendOrigin.CLIENT);
        LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0),
            new IgnoredMetrics(), BufferSupplier.NO_CACHING);
        return "ok " + result.logAppendTimeMs() + " " + hex(result.validatedRecords());
    }

    private static SimpleRecord[] parse(String text) {
        List<SimpleRecord> records = new ArrayList<>();
        for (String item : text.split(";")) {
            String[] parts = item.split("\\|", -1);
            List<Header> headers = new ArrayList<>();
            for (String header : parts[4].isEmpty() ? new String[0] : parts[4].split(",")) {
                int split = header.indexOf('=');
                headers.add(new RecordHeader(header.substring(0, split), unbytes(header.substring(split + 1))));
            }
            records.add(new SimpleRecord(Long.parseLong(parts[1]), unbytes(parts[2]), unbytes(parts[3]),
                headers.toArray(new Header[0])));
        }
        return records.toArray(new SimpleRecord[0]);
    }

    private static Compression compression(String name) {
        return name.equals("uncompressed") || name.equals("none") ? Compression.NONE : Compression.of(name).build();
    }

    private static String bytes(byte[] content) {
        return content == null ? "-" : HEX.formatHex(content);
    }

    private static byte[] unbytes(String text) {
        return text.equals("-") ? null : HEX.parseHex(text);
    }

    private static String buffer(ByteBuffer content) {
        if (content == null)
            return "-";
        byte[] copy = new byte[content.remaining()];
        content.duplicate().get(copy);
        return HEX.formatHex(copy);
    }

    private static String hex(MemoryRecords records) {
        return buffer(records.buffer());
    }

    private static ByteBuffer unhex(String text) {
        return ByteBuffer.wrap(HEX.parseHex(text));
    }

    private static final class IgnoredMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }

    private record FixedTime(long milliseconds) implements Time {
        public long nanoseconds() {
            return milliseconds * 1_000_000;
        }
        public void sleep(long ms) { }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }
}
