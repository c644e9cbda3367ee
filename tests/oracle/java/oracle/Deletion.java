package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** What a broker deletes of a partition's head: on request, or as its settings have it; and a clean stop afterwards. */
final class Deletion {
    private static final BrokerTopicStats STATS = new BrokerTopicStats(false);

    private Deletion() {
    }

    /** Asked: directory (changed in place), config, high_watermark, now_ms, up_to (an offset, or null: no request). */
    static void delete(JsonNode job, ObjectNode answer) throws Exception {
        Path directory = Path.of(job.get("directory").asText());
        Time time = Parts.at(job.get("now_ms").asLong());
        Map<String, String> settings = new HashMap<>();
        job.get("config").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
        try (UnifiedLog log = UnifiedLog.create(directory.toFile(), new LogConfig(settings), 0, 0, Parts.NOW, STATS, time,
                Parts.TRANSACTION_TIMEOUT_MS, Parts.KEEP_PRODUCERS, Integer.MAX_VALUE, new LogDirFailureChannel(1), true,
                Optional.empty(), new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER)) {
            log.updateHighWatermark(job.get("high_watermark").asLong());
            JsonNode upTo = job.get("up_to");
            if (!upTo.isNull()) {
                log.maybeIncrementLogStartOffset(upTo.asLong(), LogStartOffsetIncrementReason.ClientRecordDeletion);
            }
            answer.put("deleted", log.deleteOldSegments());
            answer.put("log_start", log.logStartOffset());
        }
    }
}
