#!/bin/bash
# What a container runs. `driver` and `executor` are Spark's words for its own pods on Kubernetes; anything else is a
# command: `tidegauge console`, `airflow celery worker`.
set -euo pipefail

# Kubernetes may run a container as any user (OpenShift does, and who sets runAsUser). Java takes the home of one whom passwd
# does not know for "?", Hadoop and Postgres ask for a name: so there is one.
if ! getent passwd "$(id -u)" > /dev/null; then
  known=$(mktemp -d)
  [[ -n "${HOME:-}" && "$HOME" != / && -w "$HOME" ]] || export HOME=/tmp
  printf 'tidegauge:x:%s:%s::%s:/bin/false\n' "$(id -u)" "$(id -g)" "$HOME" > "$known/passwd"
  printf 'tidegauge:x:%s:\n' "$(id -g)" > "$known/group"
  export LD_PRELOAD=libnss_wrapper.so NSS_WRAPPER_PASSWD="$known/passwd" NSS_WRAPPER_GROUP="$known/group"
fi

case "${1:-}" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
      --deploy-mode client "$@"
    ;;
  executor)
    # Spark numbers the executor's JVM options: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
    mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | sed 's/^[^=]*=//')
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_EXTRA_CLASSPATH:-}:$SPARK_HOME/jars/*" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec "$@"
    ;;
esac
