import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line classes one after the other in one process, asked one JSON object per line.
 *
 * <pre>
 * {"main": CLASS, "arguments": [TEXT]} -> {"code": N, "out": TEXT, "err": TEXT}
 * </pre>
 */
public final class ToolRunner {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Thrown where a tool would end the process. */
    private static final class Ended extends RuntimeException {
        private final int code;

        private Ended(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> {
            throw new Ended(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Ended(code);
        });
        Exit.setShutdownHookAdder((name, hook) -> { });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
            answers.flush();
        }
    }

    private static JsonNode run(JsonNode asked) throws Exception {
        String[] arguments = new String[asked.get("arguments").size()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = asked.get("arguments").get(i).asText();
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        int code = 0;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        try {
            Class.forName(asked.get("main").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Ended ended) {
                code = ended.code;
            } else {
                wrapped.getCause().printStackTrace();
                code = 1;
            }
        } finally {
            System.setOut(realOut);
            System.setErr(realErr);
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("code", code);
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
        return answer;
    }
}
