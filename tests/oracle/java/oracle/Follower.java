package oracle;

import java.util.Optional;
import kafka.server.AbstractFetcherThread;
import kafka.server.FailedPartitions;
import kafka.server.OffsetTruncationState;
import kafka.server.TierStateMachine;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's fetcher on one log; what {@code ReplicaFetcherThread} asks the replica manager is asked of the log here. */
final class Follower extends AbstractFetcherThread {
    private static final BrokerTopicStats STATS = new BrokerTopicStats(false);
    private final UnifiedLog log;
    private final FailedPartitions failures;

    Follower(Leader leader, UnifiedLog log) {
        this(leader, log, new FailedPartitions());
    }

    private Follower(Leader leader, UnifiedLog log, FailedPartitions failures) {
        super("follower", "follower", leader, failures, new TierStateMachine(leader, null, false), 0, false, STATS);
        this.log = log;
        this.failures = failures;
    }

    boolean failed() {
        return failures.contains(Epochs.PARTITION);
    }

    @Override
    public scala.Option<LogAppendInfo> processPartitionData(
            TopicPartition partition, long offset, int epoch, FetchResponseData.PartitionData data) {
        return scala.Option.empty();
    }

    @Override
    public void truncate(TopicPartition partition, OffsetTruncationState state) {
        log.truncateTo(state.offset());
    }

    @Override
    public void truncateFullyAndStartAt(TopicPartition partition, long offset) {
        log.truncateFullyAndStartAt(offset, Optional.empty());
    }

    @Override
    public Optional<Integer> latestEpoch(TopicPartition partition) {
        return log.latestEpoch();
    }

    @Override
    public long logStartOffset(TopicPartition partition) {
        return log.logStartOffset();
    }

    @Override
    public long logEndOffset(TopicPartition partition) {
        return log.logEndOffset();
    }

    @Override
    public Optional<OffsetAndEpoch> endOffsetForEpoch(TopicPartition partition, int epoch) {
        return log.endOffsetForEpoch(epoch);
    }

    @Override
    public boolean shouldFetchFromLastTieredOffset(TopicPartition partition, long leaderEnd, long replicaEnd) {
        return false;
    }
}
