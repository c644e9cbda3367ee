import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams with exactly-once v2: counts a topic's records by their keys' first letters.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, input topic, output topic, group protocol. Between
 * them are a repartition topic and a changelog; each record that is read gives one that is written. It prints
 * {@code running} once it is, and ends when a line (or the end) comes in on its standard input.
 */
public final class StreamsApp {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        properties.put("group.protocol", arguments[5]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "3");
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "1");
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("repartition.purge.interval.ms", "1000");
        properties.put(StreamsConfig.topicPrefix("min.insync.replicas"), "1");
        properties.put(StreamsConfig.topicPrefix("internal.segment.bytes"), "16384");
        properties.put(StreamsConfig.topicPrefix("segment.index.bytes"), "4096");
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[3], Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .groupBy((key, value) -> key.substring(0, 1), Grouped.with(Serdes.String(), Serdes.ByteArray()))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .to(arguments[4], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("running");
                System.out.flush();
            }
        });
        streams.start();
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
        streams.close(Duration.ofSeconds(60));
    }
}
