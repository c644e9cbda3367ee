import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A transactional producer that does what lines on its standard input say, one answer a line.
 *
 * <p>Arguments: bootstrap servers, transactional id, transaction timeout in ms, compression type. It prints
 * {@code ready} once its transactions are initialized. Commands, their fields separated by tabs:
 *
 * <pre>
 * begin
 * send    number topic partition key value     key and value in base 64, "-" for null; answered by flush
 * flush                                        ack number offset | nack number error, for each; then ok
 * commit | abort                               acks as above, then ok
 * abandon                                      ends this process at once, the transaction left open
 * close                                        ends the producer and this process
 * </pre>
 *
 * What fails answers {@code error ClassName message}.
 */
public final class TransactionalProducer {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, arguments[1]);
        properties.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, arguments[2]);
        properties.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, arguments[3]);
        properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        properties.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        properties.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, "90000");
        properties.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, "120000");
        ConcurrentLinkedQueue<String> answers = new ConcurrentLinkedQueue<>();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            producer.initTransactions();
            say("ready");
        } catch (RuntimeException error) {
            say(failure(error));
        }
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                switch (fields[0]) {
                    case "begin" -> producer.beginTransaction();
                    case "send" -> {
                        send(producer, fields, answers);
                        continue;
                    }
                    case "flush" -> producer.flush();
                    case "commit" -> producer.commitTransaction();
                    case "abort" -> producer.abortTransaction();
                    case "abandon" -> Runtime.getRuntime().halt(0);
                    case "close" -> {
                        producer.close();
                        say("ok");
                        return;
                    }
                    default -> throw new IllegalArgumentException(line);
                }
                drain(answers);
                say("ok");
            } catch (RuntimeException error) {
                drain(answers);
                say(failure(error));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void send(
            KafkaProducer<byte[], byte[]> producer, String[] fields, ConcurrentLinkedQueue<String> answers) {
        try {
            producer.send(
                    new ProducerRecord<>(fields[2], Integer.parseInt(fields[3]), bytes(fields[4]), bytes(fields[5])),
                    (metadata, error) ->
                            answers.add(
                                    error == null
                                            ? "ack\t" + fields[1] + "\t" + metadata.offset()
                                            : "nack\t" + fields[1] + "\t" + error.getClass().getSimpleName()));
        } catch (RuntimeException error) {
            answers.add("nack\t" + fields[1] + "\t" + error.getClass().getSimpleName());
        }
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : Base64.getDecoder().decode(field);
    }

    private static void drain(ConcurrentLinkedQueue<String> answers) {
        for (String answer = answers.poll(); answer != null; answer = answers.poll()) {
            say(answer);
        }
    }

    private static String failure(Exception error) {
        Throwable cause = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
        return "error\t" + cause.getClass().getSimpleName() + "\t" + String.valueOf(cause.getMessage()).replaceAll("\\s+", " ");
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
