package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;

/** Batch after batch: what a leader says to it, as if a producer had just sent it, and the state that it leaves. */
final class Sequences {
    private Sequences() {
    }

    /**
     * Asked: logs, each the hexadecimal bytes of its batches. A batch that is refused and brings new sequences is taken
     * in nevertheless, as a replica would: only what repeats or is fenced leaves the state alone.
     */
    static void judge(JsonNode job, Path scratch, ObjectNode answer) throws IOException {
        Path directory = scratch.resolve("sequences-0");
        Files.createDirectories(directory);
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode log : job.get("logs")) {
            ProducerStateManager producers = new ProducerStateManager(Epochs.PARTITION, directory.toFile(),
                    Parts.TRANSACTION_TIMEOUT_MS, Parts.KEEP_PRODUCERS, Parts.at(0));
            ObjectNode found = answers.addObject();
            ArrayNode verdicts = found.putArray("verdicts");
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(log.get("bytes").asText()));
            for (RecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
                String verdict = verdict(producers, batch, log.get("forward_limit").asInt());
                verdicts.add(verdict);
                if (List.of("accepted", "missing before", "repeats and goes on").contains(verdict)) {
                    take(producers, batch, AppendOrigin.REPLICATION);
                }
            }
            ArrayNode states = found.putArray("producers");
            for (ProducerStateEntry entry : producers.activeProducers().values()) {
                Loading.producer(entry, states.addArray());
            }
            found.put("first_undecided", producers.firstUndecidedOffset().orElse(-1));
        }
    }

    private static String verdict(ProducerStateManager producers, RecordBatch batch, int forwardLimit) {
        if (batch.isControlBatch()) {
            return "accepted";
        }
        try {
            ProducerAppendInfo info = producers.prepareUpdate(batch.producerId(), AppendOrigin.CLIENT);
            info.append(batch, Optional.of(new LogOffsetMetadata(batch.baseOffset())));
            return "accepted";
        } catch (org.apache.kafka.common.errors.OutOfOrderSequenceException refused) {
            Optional<ProducerStateEntry> known = producers.lastEntry(batch.producerId());
            int last = known.isEmpty() || known.get().producerEpoch() != batch.producerEpoch()
                    || known.get().batchMetadata().isEmpty()
                    ? -1 : known.get().batchMetadata().stream().reduce((a, b) -> b).get().lastSeq();
            int ahead = (batch.baseSequence() - last - 1) & Integer.MAX_VALUE;
            if (last < 0 || ahead < forwardLimit) {
                return "missing before";
            }
            int further = (batch.lastSequence() - last - 1) & Integer.MAX_VALUE;
            return further < forwardLimit ? "repeats and goes on" : "repeats";
        } catch (ApiException refused) {
            return refused.getClass().getSimpleName();
        }
    }

    private static void take(ProducerStateManager producers, RecordBatch batch, AppendOrigin origin) {
        ProducerAppendInfo info = producers.prepareUpdate(batch.producerId(), origin);
        Optional<CompletedTxn> completed = info.append(batch, Optional.of(new LogOffsetMetadata(batch.baseOffset())));
        producers.update(info);
        producers.updateMapEndOffset(batch.lastOffset() + 1);
        completed.ifPresent(producers::completeTxn);
    }
}
