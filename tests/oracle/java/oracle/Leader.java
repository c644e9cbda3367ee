package oracle;

import java.util.Map;
import java.util.Optional;
import java.util.Set;
import kafka.cluster.Partition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData.OffsetForLeaderPartition;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.EpochEndOffset;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.server.LeaderEndPoint;
import org.apache.kafka.server.PartitionFetchState;
import org.apache.kafka.server.ReplicaFetch;
import org.apache.kafka.server.ResultWithPartitions;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.network.BrokerEndPoint;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchParams;
import org.apache.kafka.storage.internals.log.LogReadInfo;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** The leader as the fetcher sees it: requests go straight to a {@code Partition}; answers carry no records. */
final class Leader implements LeaderEndPoint {
    private final Partition partition;
    private final UnifiedLog log;
    private FetchRequest.PartitionData requested;
    private int diverging;
    private int outOfRange;
    private int fetches;
    private long followerEnd = -1;
    private boolean settled;

    Leader(Partition partition, UnifiedLog log) {
        this.partition = partition;
        this.log = log;
    }

    /** Answers that named a diverging epoch. */
    int diverging() {
        return diverging;
    }

    /** Answers that said that the offset is out of range. */
    int outOfRange() {
        return outOfRange;
    }

    /** Whether the follower was given what it asked for, or gets one and the same error without moving any more. */
    boolean settled() {
        return settled;
    }

    void nextRound(long end) {
        settled = fetches > 1 && outOfRange > 1 && end == followerEnd && requested.fetchOffset == end;
        followerEnd = end;
    }

    @Override
    public boolean isTruncationOnFetchSupported() {
        return true;
    }

    @Override
    public void initiateClose() {
    }

    @Override
    public void close() {
    }

    @Override
    public BrokerEndPoint brokerEndPoint() {
        return new BrokerEndPoint(Exchange.LEADER, "leader", 9092);
    }

    /** As {@code RemoteLeaderEndPoint#buildFetch}. */
    @Override
    public ResultWithPartitions<Optional<ReplicaFetch>> buildFetch(Map<TopicPartition, PartitionFetchState> states) {
        PartitionFetchState state = states.get(Epochs.PARTITION);
        if (state == null || !state.isReadyForFetch()) {
            return new ResultWithPartitions<>(Optional.empty(), Set.of());
        }
        requested = new FetchRequest.PartitionData(state.topicId().orElseThrow(), state.fetchOffset(), 0, 1 << 20,
                Optional.of(state.currentLeaderEpoch()), state.lastFetchedEpoch());
        Map<TopicPartition, FetchRequest.PartitionData> asked = Map.of(Epochs.PARTITION, requested);
        FetchRequest.Builder builder = FetchRequest.Builder.forReplica(
                ApiKeys.FETCH.latestVersion(), Exchange.FOLLOWER, 1, 0, 0, asked);
        return new ResultWithPartitions<>(Optional.of(new ReplicaFetch(asked, builder)), Set.of());
    }

    /** As {@code ReplicaManager#readFromLog} and {@code KafkaApis} make an answer of what the partition reads. */
    @Override
    public Map<TopicPartition, FetchResponseData.PartitionData> fetch(FetchRequest.Builder ignored) {
        fetches++;
        FetchParams parameters = new FetchParams(Exchange.FOLLOWER, 1, 0, 0, 1 << 20, FetchIsolation.LOG_END,
                Optional.empty());
        FetchResponseData.PartitionData answer = new FetchResponseData.PartitionData().setPartitionIndex(0)
                .setRecords(MemoryRecords.EMPTY);
        try {
            LogReadInfo read = partition.fetchRecords(parameters, requested, 0, 1 << 20, true, false);
            answer.setHighWatermark(read.highWatermark()).setLogStartOffset(read.logStartOffset());
            read.divergingEpoch().ifPresent(answer::setDivergingEpoch);
            if (read.divergingEpoch().isPresent()) {
                diverging++;
            } else {
                settled = true;
            }
        } catch (OffsetOutOfRangeException outside) {
            outOfRange++;
            answer.setErrorCode(Errors.OFFSET_OUT_OF_RANGE.code());
        }
        return Map.of(Epochs.PARTITION, answer);
    }

    @Override
    public OffsetAndEpoch fetchEarliestOffset(TopicPartition asked, int currentLeaderEpoch) {
        return new OffsetAndEpoch(log.logStartOffset(), log.leaderEpochCache().epochForOffset(log.logStartOffset()).orElse(0));
    }

    @Override
    public OffsetAndEpoch fetchLatestOffset(TopicPartition asked, int currentLeaderEpoch) {
        return new OffsetAndEpoch(log.logEndOffset(), log.leaderEpochCache().epochForOffset(log.logEndOffset()).orElse(0));
    }

    @Override
    public OffsetAndEpoch fetchEarliestLocalOffset(TopicPartition asked, int currentLeaderEpoch) {
        return fetchEarliestOffset(asked, currentLeaderEpoch);
    }

    @Override
    public OffsetAndEpoch fetchEarliestPendingUploadOffset(TopicPartition asked, int currentLeaderEpoch) {
        throw new UnsupportedOperationException("no tiered storage here");
    }

    @Override
    public Map<TopicPartition, EpochEndOffset> fetchEpochEndOffsets(Map<TopicPartition, OffsetForLeaderPartition> asked) {
        OffsetForLeaderPartition question = asked.get(Epochs.PARTITION);
        return Map.of(Epochs.PARTITION,
                partition.lastOffsetForLeaderEpoch(Optional.of(question.currentLeaderEpoch()), question.leaderEpoch(), true));
    }
}
