package org.apache.kafka.common.test.junit;

import java.util.List;

import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.utils.Exit;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

import ruslo.conformance.RusloCluster;

/**
 * Gives each test a cluster of Ruslo processes. It has the name of Kafka's class and stands before it on the class path.
 * Display names have the form of Kafka's own, so that results of two runs can be compared by line.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static final boolean ALL_TYPES = Boolean.getBoolean("conformance.all.types");

    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        String type = combined ? "Combined" : "Isolated";
        return name + " [" + index + "] Type=Raft-" + type + ", " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        RusloCluster cluster = new RusloCluster(config, combined);
        BeforeEachCallback begin = context -> {
            if (!ALL_TYPES && combined && config.clusterTypes().size() > 1) {
                throw new TestAbortedException("repeated: runs with isolated controllers");
            }
            // A tool that ends its process would end the JVM of all tests.
            Exit.setExitProcedure((code, message) -> {
                throw new IllegalStateException("The tool exited with code " + code + ": " + message);
            });
            try {
                cluster.format();
                if (config.isAutoStart()) {
                    cluster.start();
                }
            } catch (Throwable e) {
                cluster.stop();
                throw e;
            }
        };
        AfterTestExecutionCallback end = context -> {
            cluster.stop();
            boolean failed = context.getExecutionException()
                .filter(error -> !(error instanceof TestAbortedException)).isPresent();
            if (failed) {
                System.err.println("Files of " + context.getDisplayName() + ": " + cluster.home());
            } else {
                cluster.deleteFiles();
            }
        };
        return List.of(begin, end, new ClusterInstanceParameterResolver(cluster));
    }
}
