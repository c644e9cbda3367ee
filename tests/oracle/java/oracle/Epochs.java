package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/** Leader-epoch caches: what one holds after loading a checkpoint, and what it answers. */
final class Epochs {
    static final TopicPartition PARTITION = new TopicPartition("asked", 0);

    private Epochs() {
    }

    /** A checkpoint that is held in memory: thousands of caches must not wait for a disk. */
    static final class Held extends LeaderEpochCheckpointFile {
        private List<EpochEntry> entries;

        Held(Path scratch, List<EpochEntry> entries) throws IOException {
            super(new File(scratch.toFile(), "held-leader-epoch-checkpoint"), new LogDirFailureChannel(1));
            this.entries = entries;
        }

        @Override
        public void write(Collection<EpochEntry> written) {
            entries = List.copyOf(written);
        }

        @Override
        public void writeIfDirExists(Collection<EpochEntry> written) {
            entries = List.copyOf(written);
        }

        @Override
        public List<EpochEntry> read() {
            return entries;
        }
    }

    static List<EpochEntry> entries(JsonNode pairs) {
        List<EpochEntry> found = new ArrayList<>();
        for (JsonNode pair : pairs) {
            found.add(new EpochEntry(pair.get(0).asInt(), pair.get(1).asLong()));
        }
        return found;
    }

    /** Asked: vectors, each with checkpoint, recovered (entries of batches), log_start, log_end, epochs. */
    static void ask(JsonNode job, Path scratch, ObjectNode answer) throws IOException {
        Files.createDirectories(scratch);
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode vector : job.get("vectors")) {
            List<EpochEntry> written = entries(vector.get("checkpoint"));
            LeaderEpochFileCache cache = new LeaderEpochFileCache(PARTITION, new Held(scratch, written), Parts.NOW);
            for (EpochEntry batch : entries(vector.get("recovered"))) {
                // LogSegment#recover: a batch of an epoch newer than all that are known begins it.
                if (cache.latestEpoch().isEmpty() || batch.epoch() > cache.latestEpoch().get()) {
                    cache.assign(batch.epoch(), batch.startOffset());
                }
            }
            long logEnd = vector.get("log_end").asLong();
            cache.truncateFromEndAsyncFlush(logEnd);
            cache.truncateFromStartAsyncFlush(vector.get("log_start").asLong());
            ObjectNode found = answers.addObject();
            ArrayNode entries = found.putArray("entries");
            for (EpochEntry entry : cache.epochEntries()) {
                entries.addArray().add(entry.epoch()).add(entry.startOffset());
            }
            ArrayNode ends = found.putArray("ends");
            for (JsonNode epoch : vector.get("epochs")) {
                Map.Entry<Integer, Long> end = cache.endOffsetFor(epoch.asInt(), logEnd);
                ends.addArray().add(end.getKey()).add(end.getValue());
            }
            ArrayNode at = found.putArray("at");
            for (JsonNode offset : vector.get("offsets")) {
                at.add(cache.epochForOffset(offset.asLong()).orElse(-1));
            }
        }
    }
}
