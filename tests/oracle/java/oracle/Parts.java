package oracle;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/** What Kafka's classes want beside the log: a clock that stands still, nobody who does things later, a configuration. */
final class Parts {
    /** No producer is ever expired: the longest time that the setting can say. */
    static final ProducerStateManagerConfig KEEP_PRODUCERS = new ProducerStateManagerConfig(Integer.MAX_VALUE, false);
    static final int TRANSACTION_TIMEOUT_MS = 900_000;

    private Parts() {
    }

    /** Small index files where those that are there are small: a log of a few KB must not cost 20 MB of memory. */
    static LogConfig config(boolean remote, long longestIndex) {
        return new LogConfig(Map.of(
                "segment.index.bytes", Long.toString(Math.max(65_536, longestIndex)),
                "segment.bytes", "1073741824",
                "file.delete.delay.ms", "0",
                "remote.storage.enable", Boolean.toString(remote)));
    }

    /** A clock that stands at one moment. */
    static Time at(long milliseconds) {
        return new Time() {
            @Override
            public long milliseconds() {
                return milliseconds;
            }

            @Override
            public long nanoseconds() {
                return milliseconds * 1_000_000;
            }

            @Override
            public void sleep(long ignored) {
            }
        };
    }

    /** What is to be done now is done now; what is to be done later never is. */
    static final Scheduler NOW = new Scheduler() {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs < 0 && delayMs <= 0) {
                task.run();
            }
            return new Done();
        }

        @Override
        public void resizeThreadPool(int ignored) {
        }
    };

    private static final class Done extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }

    static long longestIndex(Path directory) throws IOException {
        long longest = 0;
        try (Stream<Path> files = Files.list(directory)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                longest = file.toString().endsWith("index") ? Math.max(longest, Files.size(file)) : longest;
            }
        }
        return longest;
    }

    static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                if (Files.isRegularFile(file)) {
                    Path copied = Files.copy(file, to.resolve(file.getFileName()));
                    copied.toFile().setWritable(true);
                }
            }
        }
    }

    static void remove(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : (Iterable<Path>) files.sorted((a, b) -> b.compareTo(a))::iterator) {
                Files.delete(file);
            }
        }
    }
}
