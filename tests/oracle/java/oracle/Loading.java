package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.message.AbortedTxn;
import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogSegments;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** One partition's directory: its batches as they lie there, and the log that a broker would load from it. */
final class Loading {
    private static final BrokerTopicStats STATS = new BrokerTopicStats(false);

    private Loading() {
    }

    /**
     * Asked: directory, name (of the copy), clean, log_start, recovery_point, high_watermarks (rising), now_ms, remote,
     * keep_snapshots (producer snapshots), with_batches.
     */
    static void load(JsonNode job, Path scratch, ObjectNode answer) throws IOException {
        Path source = Path.of(job.get("directory").asText());
        Path copy = scratch.resolve("loaded").resolve(job.get("name").asText());
        Parts.copy(source, copy);
        try {
            if (job.get("with_batches").asBoolean()) {
                readBatches(copy, answer);
            }
            if (!job.get("keep_snapshots").asBoolean()) {
                drop(copy, ".snapshot");
            }
            try {
                loadCopy(job, copy, answer);
            } catch (KafkaException | IOException | IllegalStateException | IllegalArgumentException
                    | IndexOutOfBoundsException | java.nio.BufferUnderflowException error) {
                answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
        } finally {
            Parts.remove(copy.getParent());
        }
    }

    private static void drop(Path directory, String suffix) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                if (file.toString().endsWith(suffix)) {
                    Files.delete(file);
                }
            }
        }
    }

    private static void loadCopy(JsonNode job, Path copy, ObjectNode answer) throws IOException {
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        try (UnifiedLog log = UnifiedLog.create(
                copy.toFile(),
                Parts.config(job.get("remote").asBoolean(), Parts.longestIndex(copy)),
                job.get("log_start").asLong(),
                job.get("recovery_point").asLong(),
                Parts.NOW,
                STATS,
                Parts.at(job.get("now_ms").asLong()),
                Parts.TRANSACTION_TIMEOUT_MS,
                Parts.KEEP_PRODUCERS,
                Integer.MAX_VALUE,
                failures,
                job.get("clean").asBoolean(),
                Optional.empty(),
                new ConcurrentHashMap<>(),
                job.get("remote").asBoolean(),
                LogOffsetsListener.NO_OP_OFFSETS_LISTENER)) {
            answer.put("log_start", log.logStartOffset());
            answer.put("local_log_start", log.localLogStartOffset());
            answer.put("log_end", log.logEndOffset());
            ArrayNode epochs = answer.putArray("epochs");
            for (EpochEntry entry : log.leaderEpochCache().epochEntries()) {
                epochs.addArray().add(entry.epoch()).add(entry.startOffset());
            }
            ArrayNode producers = answer.putArray("producers");
            for (ProducerStateEntry entry : log.producerStateManager().activeProducers().values()) {
                producer(entry, producers.addArray());
            }
            ArrayNode segments = answer.putArray("segments");
            ArrayNode aborted = answer.putArray("aborted");
            for (LogSegment segment : log.logSegments()) {
                segments.addArray().add(segment.baseOffset()).add(segment.size());
                for (AbortedTxn entry : segment.txnIndex().allAbortedTxns()) {
                    aborted.addArray().add(segment.baseOffset()).add(entry.producerId()).add(entry.firstOffset())
                            .add(entry.lastOffset()).add(entry.lastStableOffset());
                }
            }
            answer.put("collected", log.collectAbortedTransactions(log.localLogStartOffset(), log.logEndOffset()).size());
            log.updateHighWatermark(log.logEndOffset());
            answer.put("first_unstable", log.firstUnstableOffset().orElse(-1L));
            answer.put("last_stable", log.lastStableOffset());
            ObjectNode replayed = answer.putObject("replayed");
            try {
                replay(log, job, copy.resolveSibling("replay-0"), replayed);
            } catch (KafkaException | IllegalArgumentException error) {
                // What lies below the recovery point is not looked at while loading, and may be damaged.
                replayed.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
        }
    }

    /** The producers without any snapshot: replayed from the first record to the last, as a replica takes them in. */
    private static void replay(UnifiedLog log, JsonNode job, Path directory, ObjectNode answer) throws IOException {
        Files.createDirectories(directory);
        Time time = Parts.at(job.get("now_ms").asLong());
        ProducerStateManager producers = new ProducerStateManager(log.topicPartition(), directory.toFile(),
                Parts.TRANSACTION_TIMEOUT_MS, Parts.KEEP_PRODUCERS, time);
        LogSegments segments = new LogSegments(log.topicPartition());
        log.logSegments().forEach(segments::add);
        UnifiedLog.rebuildProducerState(producers, segments, log.logStartOffset(), log.logEndOffset(), time, false, "");
        ArrayNode states = answer.putArray("producers");
        for (ProducerStateEntry entry : producers.activeProducers().values()) {
            producer(entry, states.addArray());
        }
        ArrayNode unstable = answer.putArray("first_unstable");
        for (JsonNode highWatermark : job.get("high_watermarks")) {
            producers.onHighWatermarkUpdated(highWatermark.asLong());
            Optional<LogOffsetMetadata> offset = producers.firstUnstableOffset();
            unstable.add(offset.map(found -> found.messageOffset).orElse(-1L));
        }
    }

    /** A producer as its snapshot entry says it. */
    static void producer(ProducerStateEntry entry, ArrayNode fields) {
        List<BatchMetadata> batches = List.copyOf(entry.batchMetadata());
        BatchMetadata last = batches.isEmpty() ? null : batches.get(batches.size() - 1);
        fields.add(entry.producerId())
                .add(entry.producerEpoch())
                .add(last == null ? -1 : last.lastSeq())
                .add(last == null ? -1 : last.lastOffset())
                .add(last == null ? 0 : last.offsetDelta())
                .add(entry.lastTimestamp())
                .add(entry.coordinatorEpoch())
                .add(entry.currentTxnFirstOffset().orElse(-1));
    }

    /** Every batch of every segment, as far as Kafka's iterator goes; where it stops with an exception, that too. */
    private static void readBatches(Path directory, ObjectNode answer) throws IOException {
        ObjectNode files = answer.putObject("batches");
        File[] logs = directory.toFile().listFiles((where, name) -> name.endsWith(".log"));
        for (File file : logs == null ? new File[0] : logs) {
            ObjectNode found = files.putObject(file.getName());
            ArrayNode rows = found.putArray("rows");
            try (FileRecords records = FileRecords.open(file, false)) {
                for (FileLogInputStream.FileChannelRecordBatch batch : records.batches()) {
                    row(batch, rows.addArray());
                }
            } catch (KafkaException error) {
                found.put("stopped", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
        }
    }

    private static void row(FileLogInputStream.FileChannelRecordBatch batch, ArrayNode fields) {
        int attributes = batch.compressionType().id
                | (batch.timestampType().id == 1 ? 0x08 : 0)
                | (batch.isTransactional() ? 0x10 : 0)
                | (batch.isControlBatch() ? 0x20 : 0)
                | (batch.deleteHorizonMs().isPresent() ? 0x40 : 0);
        fields.add(batch.position())
                .add(batch.sizeInBytes())
                .add(batch.baseOffset())
                .add(batch.lastOffset())
                .add(batch.partitionLeaderEpoch())
                .add(batch.magic())
                .add(batch.checksum())
                .add(batch.isValid() ? 1 : 0)
                .add(attributes)
                .add(batch.maxTimestamp())
                .add(batch.producerId())
                .add(batch.producerEpoch())
                .add(batch.baseSequence())
                .add(count(batch));
    }

    private static long count(RecordBatch batch) {
        Integer count = batch.countOrNull();
        if (count != null) {
            return count;
        }
        long found = 0; // Of formats 0 and 1 only the records themselves tell.
        for (var ignored : batch) {
            found++;
        }
        return found;
    }
}
