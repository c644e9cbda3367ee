package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Kafka's own classes, asked by the tests. In: one JSON object a line, its "job" says what to do. Out: one JSON object a
 * line, in the same order. The rule that must hold: nothing is computed here; every number is Kafka's.
 */
public final class Main {
    static final ObjectMapper JSON = new ObjectMapper();

    private Main() {
    }

    /** The only argument: an empty directory to work in. */
    public static void main(String[] arguments) throws Exception {
        Path scratch = Path.of(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter answers = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        Exchange exchange = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode job = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            switch (job.get("job").asText()) {
                case "load" -> Loading.load(job, scratch, answer);
                case "clean" -> Cleaning.clean(job, answer);
                case "delete" -> Deletion.delete(job, answer);
                case "epochs" -> Epochs.ask(job, scratch, answer);
                case "exchange" -> {
                    if (exchange == null) {
                        exchange = new Exchange(scratch);
                    }
                    exchange.run(job, answer);
                }
                case "sequences" -> Sequences.judge(job, scratch, answer);
                default -> throw new IllegalArgumentException("no such job: " + line);
            }
            answers.write(JSON.writeValueAsString(answer));
            answers.newLine();
            answers.flush();
        }
    }
}
