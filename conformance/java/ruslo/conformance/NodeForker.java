package ruslo.conformance;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/** Runs commands of Ruslo by {@code node_forker.py}, a Python process that has imported Ruslo already. */
final class NodeForker {
    private static final String PYTHON = System.getProperty("conformance.python");
    private static final String SCRIPT = System.getProperty("conformance.forker");

    private static Process process;
    private static BufferedReader responses;

    private NodeForker() { }

    /** The process that runs the command; empty if it has ended already. */
    static Optional<ProcessHandle> start(Path log, List<String> arguments) {
        return ProcessHandle.of(Long.parseLong(request("start", log, arguments)));
    }

    /** The exit code of a command that ends by itself. */
    static int run(Path log, List<String> arguments) {
        return Integer.parseInt(request("run", log, arguments));
    }

    private static synchronized String request(String order, Path log, List<String> arguments) {
        try {
            if (process == null) {
                process = new ProcessBuilder(PYTHON, SCRIPT)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
                responses = process.inputReader();
            }
            Writer requests = process.outputWriter();
            requests.write(order + "\t" + log + "\t" + String.join("\t", arguments) + "\n");
            requests.flush();
            String response = responses.readLine();
            if (response == null) {
                throw new IllegalStateException("node_forker.py ended; the log of the tests shows why");
            }
            return response;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
