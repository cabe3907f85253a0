import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line classes one after the other in one process. Requests and responses are JSON objects,
 * one per line.
 *
 * <pre>
 * {"main": CLASS, "arguments": [TEXT], "stdin": TEXT}
 *     -> {"returncode": N, "stdout": TEXT, "stderr": TEXT, "left_open": TRUE_IF_A_CLIENT_IS}
 * </pre>
 *
 * Some tools leave it to the end of the process to close their clients. An open client tries to connect again and
 * again when its broker is gone, so the process should be replaced.
 */
public final class ToolRunner {
    private static final ObjectMapper JSON = new ObjectMapper();
    // Classes keep the streams that they find when they are loaded, so every command writes to the same two.
    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();

    // Some tools close their clients in shutdown hooks.
    private static final List<Runnable> HOOKS = new ArrayList<>();
    // The code of the first exit counts: some tools catch what is thrown there and exit once more.
    private static Integer exitCode;

    /** Thrown where a tool would end the process. */
    private static final class Ended extends RuntimeException {
        private Ended(int code) {
            super("exit " + code, null, false, false);
        }
    }

    private static void exit(int code) {
        if (exitCode == null) {
            exitCode = code;
        }
        throw new Ended(code);
    }

    public static void main(String[] args) throws Exception {
        PrintStream responses = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        String line;
        while ((line = requests.readLine()) != null) {
            responses.println(JSON.writeValueAsString(run(JSON.readTree(line))));
            responses.flush();
        }
    }

    private static JsonNode run(JsonNode request) throws Exception {
        String[] arguments = new String[request.get("arguments").size()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = request.get("arguments").get(i).asText();
        }
        System.setIn(new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        OUT.reset();
        ERR.reset();
        exitCode = null;
        try {
            Class.forName(request.get("main").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            if (exitCode == null) {
                wrapped.getCause().printStackTrace();
                exitCode = 1;
            }
        }
        HOOKS.forEach(Runnable::run);
        HOOKS.clear();
        ObjectNode response = JSON.createObjectNode();
        response.put("returncode", exitCode == null ? 0 : exitCode);
        response.put("stdout", OUT.toString(StandardCharsets.UTF_8));
        response.put("stderr", ERR.toString(StandardCharsets.UTF_8));
        response.put("left_open", hasOpenClient());
        return response;
    }

    private static boolean hasOpenClient() {
        return Thread.getAllStackTraces().keySet().stream()
            .anyMatch(thread -> thread.getName().startsWith("kafka-admin-client-thread"));
    }
}
