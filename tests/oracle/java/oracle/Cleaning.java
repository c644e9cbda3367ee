package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** One pass of Kafka's cleaner over a partition's directory, and a clean stop afterwards. */
final class Cleaning {
    private static final BrokerTopicStats STATS = new BrokerTopicStats(false);

    private Cleaning() {
    }

    /** Asked: directory (changed in place), config, log_start, high_watermark, checkpoint (or null), now_ms. */
    static void clean(JsonNode job, ObjectNode answer) throws Exception {
        Path directory = Path.of(job.get("directory").asText());
        long now = job.get("now_ms").asLong();
        Time time = Parts.at(now);
        Map<String, String> settings = new HashMap<>();
        job.get("config").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
        try (UnifiedLog log = UnifiedLog.create(directory.toFile(), new LogConfig(settings),
                job.get("log_start").asLong(), 0, Parts.NOW, STATS, time, Parts.TRANSACTION_TIMEOUT_MS,
                Parts.KEEP_PRODUCERS, Integer.MAX_VALUE, new LogDirFailureChannel(1), true, Optional.empty(),
                new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER)) {
            log.updateHighWatermark(job.get("high_watermark").asLong());
            JsonNode checkpoint = job.get("checkpoint");
            Object offsets = cleanable(log,
                    checkpoint.isNull() ? Optional.empty() : Optional.of(checkpoint.asLong()), now);
            LogToClean chosen = new LogToClean(log, number(offsets, "firstDirtyOffset"),
                    number(offsets, "firstUncleanableDirtyOffset"), false);
            answer.put("first_dirty", chosen.firstDirtyOffset());
            answer.put("first_uncleanable", chosen.firstUncleanableOffset());
            answer.put("clean_bytes", chosen.cleanBytes());
            answer.put("dirty_bytes", chosen.cleanableBytes());
            if (chosen.cleanableBytes() > 0) {
                answer.put("end", run(chosen, time));
            }
        }
    }

    private static long run(LogToClean chosen, Time time) throws Exception {
        Throttler unthrottled = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner", "bytes", time);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 1 << 16, 1 << 20, 0.9, unthrottled, time,
                ignored -> { });
        Map.Entry<Long, CleanerStats> done = cleaner.doClean(chosen, time.milliseconds());
        return done.getKey();
    }

    /** The manager's own method and its answer are not public. */
    private static Object cleanable(UnifiedLog log, Optional<Long> checkpoint, long now) throws Exception {
        Method method = LogCleanerManager.class.getDeclaredMethod("cleanableOffsets", UnifiedLog.class, Optional.class,
                long.class);
        method.setAccessible(true);
        return method.invoke(null, log, checkpoint, now);
    }

    private static long number(Object record, String name) throws Exception {
        Method method = record.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return (Long) method.invoke(record);
    }
}
