import com.marcnuri.helm.Helm;
import com.marcnuri.helm.InstallCommand;
import com.marcnuri.helm.LintResult;
import com.marcnuri.helm.TemplateCommand;
import com.marcnuri.helm.TestCommand;
import com.marcnuri.helm.UpgradeCommand;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * Helm's own code: `lint CHART`, `package CHART TARGET`, `template CHART RELEASE NAMESPACE KUBERNETES VALUES_FILE...`; on a
 * cluster `install` and `upgrade CHART RELEASE NAMESPACE KUBECONFIG VALUES_FILE...`, `test CHART RELEASE NAMESPACE KUBECONFIG`.
 */
public final class RunHelm {
    public static void main(String[] arguments) {
        Helm chart = new Helm(Path.of(arguments[1]));
        try {
            switch (arguments[0]) {
                case "lint" -> {
                    LintResult result = chart.lint().strict().call();
                    result.getMessages().forEach(System.out::println);
                    System.exit(result.isFailed() ? 1 : 0);
                }
                case "package" -> chart.packageIt().withDestination(Path.of(arguments[2])).call();
                case "template" -> {
                    TemplateCommand command = chart.template().withName(arguments[2]).withNamespace(arguments[3]);
                    command.withKubeVersion(arguments[4]);
                    eachOf(arguments, command::withValuesFile);
                    System.out.print(command.call());
                }
                case "install" -> {
                    InstallCommand command = chart.install().withName(arguments[2]).withNamespace(arguments[3]);
                    command.withKubeConfig(Path.of(arguments[4]));
                    eachOf(arguments, command::withValuesFile);
                    System.out.println(command.call().getStatus());
                }
                case "upgrade" -> {
                    UpgradeCommand command = chart.upgrade().withName(arguments[2]).withNamespace(arguments[3]);
                    command.withKubeConfig(Path.of(arguments[4]));
                    eachOf(arguments, command::withValuesFile);
                    System.out.println(command.call().getStatus());
                }
                case "test" -> {
                    TestCommand command = Helm.test(arguments[2]).withNamespace(arguments[3]);
                    System.out.println(command.withKubeConfig(Path.of(arguments[4])).call().getStatus());
                }
                default -> throw new IllegalArgumentException(arguments[0]);
            }
        } catch (IllegalStateException refused) {
            System.err.println(refused.getMessage());
            System.exit(1);
        }
    }

    private static void eachOf(String[] arguments, Consumer<Path> takes) {
        Arrays.stream(arguments).skip(5).map(Path::of).forEach(takes);
    }
}
