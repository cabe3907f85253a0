package ruslo.conformance;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;

/**
 * Appends a line to the result file when a test ends: class, method, invocation, status, milliseconds, reason,
 * separated by tabs. Stack traces go to a file beside it.
 */
public final class ResultListener implements TestExecutionListener {
    private static final Path RESULTS = Path.of(System.getProperty("conformance.results"));
    private static final Path TRACES = Path.of(RESULTS + ".traces");
    private static final int MAX_REASON_LENGTH = 600;

    private final Map<String, Long> startTimes = new ConcurrentHashMap<>();

    @Override
    public void executionStarted(TestIdentifier test) {
        startTimes.put(test.getUniqueId(), System.nanoTime());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        writeLine(test, "SKIPPED", 0, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
        if (!test.isTest() && !failed) {
            return;
        }
        long now = System.nanoTime();
        long durationMs = (now - startTimes.getOrDefault(test.getUniqueId(), now)) / 1_000_000;
        String reason = result.getThrowable().map(ResultListener::summary).orElse("");
        writeLine(test, result.getStatus().toString(), durationMs, reason);
        if (failed && result.getThrowable().isPresent()) {
            StringWriter trace = new StringWriter();
            result.getThrowable().get().printStackTrace(new PrintWriter(trace));
            append(TRACES, "=== " + names(test) + "\n" + trace + "\n");
        }
    }

    private static String summary(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        String text = oneLine(error + (root == error ? "" : " <- " + root));
        return text.substring(0, Math.min(text.length(), MAX_REASON_LENGTH));
    }

    /** A container that failed, such as a class without its fixture, has no method. */
    private static String names(TestIdentifier test) {
        String source = test.getUniqueId() + "\t-";
        if (test.getSource().orElse(null) instanceof MethodSource method) {
            source = method.getClassName() + "\t" + method.getMethodName();
        } else if (test.getSource().orElse(null) instanceof ClassSource owner) {
            source = owner.getClassName() + "\t-";
        }
        return source + "\t" + oneLine(test.getDisplayName());
    }

    private static String oneLine(String text) {
        return text.replaceAll("\\s+", " ");
    }

    private static void writeLine(TestIdentifier test, String status, long durationMs, String reason) {
        append(RESULTS, names(test) + "\t" + status + "\t" + durationMs + "\t" + oneLine(reason) + "\n");
    }

    private static synchronized void append(Path file, String text) {
        try {
            Files.writeString(file, text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
