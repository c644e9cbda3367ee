package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import kafka.cluster.Partition;
import kafka.server.InitialFetchState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.partition.AlterPartitionListener;
import org.apache.kafka.server.partition.AlterPartitionManager;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LocalLog;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogLoader;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegments;
import org.apache.kafka.storage.internals.log.LoadedLogOffsets;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * A follower that comes back to a leader: a real log and a real {@code Partition} on the leader's side, a real log and
 * {@code AbstractFetcherThread} on the follower's, and no network between them. It goes on until the follower stays.
 */
final class Exchange {
    static final int LEADER = 1;
    static final int FOLLOWER = 2;
    static final int CURRENT_EPOCH = 1_000_000;
    private static final int MOST_ROUNDS = 40;
    private static final BrokerTopicStats STATS = new BrokerTopicStats(false);

    private final Path scratch;
    private final Uuid topicId = Uuid.randomUuid();
    private final UnifiedLog leader;
    private final UnifiedLog follower;
    private final Partition partition;

    Exchange(Path scratch) throws IOException {
        this.scratch = scratch;
        leader = log("leading");
        follower = log("following");
        partition = new Partition(Epochs.PARTITION, Long.MAX_VALUE, LEADER, () -> 1L, Parts.at(0),
                unused(AlterPartitionListener.class), null, unused(MetadataCache.class), null,
                unused(AlterPartitionManager.class), scala.Option.apply(topicId));
        partition.setLog(leader, false);
        PartitionRecord record = new PartitionRecord()
                .setTopicId(topicId)
                .setPartitionId(0)
                .setReplicas(List.of(LEADER, FOLLOWER))
                .setIsr(List.of(LEADER))
                .setDirectories(List.of(Uuid.randomUuid(), Uuid.randomUuid()))
                .setLeader(LEADER)
                .setLeaderEpoch(CURRENT_EPOCH)
                .setPartitionEpoch(1);
        partition.makeLeader(new PartitionRegistration(record), false, (directory, asked) -> Optional.empty(),
                scala.Option.apply(topicId), scala.Option.empty());
    }

    /** Asked: leader and follower (entries, log_start, log_end), high_watermark (of the follower). */
    void run(JsonNode job, ObjectNode answer) throws IOException {
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode pair : job.get("pairs")) {
            fill(leader, pair.get("leader"));
            fill(follower, pair.get("follower"));
            follower.updateHighWatermark(pair.get("high_watermark").asLong());
            settle(answers.addObject());
        }
    }

    private void settle(ObjectNode answer) {
        Leader endPoint = new Leader(partition, leader);
        Follower thread = new Follower(endPoint, follower);
        TopicPartition asked = Epochs.PARTITION;
        // ReplicaManager#initialFetchOffset
        long from = follower.latestEpoch().isPresent() ? follower.logEndOffset() : follower.highWatermark();
        thread.addPartitions(new scala.collection.immutable.Map.Map1<>(asked,
                new InitialFetchState(scala.Option.apply(topicId), endPoint.brokerEndPoint(), CURRENT_EPOCH, from)));
        int rounds = 0;
        while (rounds < MOST_ROUNDS && !endPoint.settled() && !thread.failed()) {
            endPoint.nextRound(follower.logEndOffset());
            thread.doWork();
            rounds++;
        }
        answer.put("log_end", follower.logEndOffset())
                .put("log_start", follower.logStartOffset())
                .put("diverging", endPoint.diverging())
                .put("out_of_range", endPoint.outOfRange())
                .put("failed", thread.failed())
                .put("settled", endPoint.settled());
        thread.shutdown();
    }

    private static void fill(UnifiedLog log, JsonNode vector) {
        long start = vector.get("log_start").asLong();
        long end = vector.get("log_end").asLong();
        log.truncateFullyAndStartAt(start, Optional.of(start));
        List<EpochEntry> entries = Epochs.entries(vector.get("entries"));
        long first = entries.isEmpty() ? end : entries.get(0).startOffset();
        if (first > start) {
            // Records of which no epoch is known: their checkpoint is gone.
            append(log, 0, start, first);
            log.leaderEpochCache().clearAndFlush();
        }
        for (int at = 0; at < entries.size(); at++) {
            EpochEntry entry = entries.get(at);
            long next = at + 1 < entries.size() ? entries.get(at + 1).startOffset() : end;
            log.assignEpochStartOffset(entry.epoch(), entry.startOffset());
            if (next > Math.max(start, entry.startOffset())) {
                append(log, entry.epoch(), Math.max(start, entry.startOffset()), next);
            }
        }
        if (log.logEndOffset() != end) {
            throw new IllegalStateException("not the log that was asked for: " + log.logEndOffset() + " for " + vector);
        }
    }

    private static void append(UnifiedLog log, int epoch, long from, long to) {
        SimpleRecord[] records = new SimpleRecord[(int) (to - from)];
        for (int at = 0; at < records.length; at++) {
            records[at] = new SimpleRecord(0L, new byte[] {1});
        }
        log.appendAsFollower(MemoryRecords.withRecords(RecordBatch.CURRENT_MAGIC_VALUE, from, Compression.NONE,
                TimestampType.CREATE_TIME, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
                RecordBatch.NO_SEQUENCE, epoch, false, records), Integer.MAX_VALUE);
    }

    /** An empty log whose epoch checkpoint is held in memory. */
    private UnifiedLog log(String parent) throws IOException {
        Path directory = scratch.resolve(parent).resolve(Epochs.PARTITION.toString());
        Files.createDirectories(directory);
        LogConfig config = Parts.config(false, 0);
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(Epochs.PARTITION,
                new Epochs.Held(scratch, new ArrayList<>()), Parts.NOW);
        ProducerStateManager producers = new ProducerStateManager(Epochs.PARTITION, directory.toFile(),
                Parts.TRANSACTION_TIMEOUT_MS, Parts.KEEP_PRODUCERS, Parts.at(0));
        LogSegments segments = new LogSegments(Epochs.PARTITION);
        LoadedLogOffsets offsets = new LogLoader(directory.toFile(), Epochs.PARTITION, config, Parts.NOW, Parts.at(0),
                failures, true, segments, 0, 0, epochs, producers, new ConcurrentHashMap<>(), false).load();
        LocalLog local = new LocalLog(directory.toFile(), config, segments, offsets.recoveryPoint(),
                offsets.nextOffsetMetadata(), Parts.NOW, Parts.at(0), Epochs.PARTITION, failures);
        return new UnifiedLog(offsets.logStartOffset(), local, STATS, Integer.MAX_VALUE, epochs, producers,
                Optional.empty(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    /** What is asked about brokers is not known; anything else must not be asked. */
    @SuppressWarnings("unchecked")
    private static <T> T unused(Class<T> type) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, given) -> {
            if (method.getReturnType() == boolean.class) {
                return false;
            }
            if (method.getReturnType() == Optional.class) {
                return Optional.empty();
            }
            throw new UnsupportedOperationException(type.getSimpleName() + "#" + method.getName());
        });
    }
}
