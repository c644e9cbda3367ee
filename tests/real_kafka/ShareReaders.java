import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group. Of the records they are given, one in seven is released once and comes again, one in
 * eleven is rejected, and the others are accepted.
 *
 * <p>Arguments: bootstrap servers, group, topic, number of members, isolation level. It prints {@code done <n>}
 * whenever the number of records that are accepted or rejected has grown, and ends when a line (or the end) comes in
 * on its standard input.
 */
public final class ShareReaders {
    private static final AtomicLong DONE = new AtomicLong();
    private static final AtomicBoolean ENDED = new AtomicBoolean();

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) arguments[0]))) {
            admin.incrementalAlterConfigs(Map.of(
                            new ConfigResource(ConfigResource.Type.GROUP, arguments[1]),
                            List.of(
                                    set("share.auto.offset.reset", "earliest"),
                                    set("share.isolation.level", arguments[4]))))
                    .all()
                    .get();
        }
        List<Thread> members = new ArrayList<>();
        for (int n = 0; n < Integer.parseInt(arguments[3]); n++) {
            members.add(new Thread(() -> read(arguments)));
        }
        members.forEach(Thread::start);
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
        ENDED.set(true);
        for (Thread member : members) {
            member.join();
        }
    }

    private static void read(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("max.poll.records", "40");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.subscribe(List.of(arguments[2]));
            while (!ENDED.get()) {
                int done = 0;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    boolean again = record.offset() % 7 == 3 && record.deliveryCount().orElse((short) 1) < 2;
                    boolean refused = record.offset() % 11 == 5;
                    consumer.acknowledge(
                            record,
                            again ? AcknowledgeType.RELEASE : refused ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
                    done += again ? 0 : 1;
                }
                consumer.commitSync();
                if (done > 0) {
                    say("done " + DONE.addAndGet(done));
                }
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }
}
