import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.task.SchedulableInstance;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.CustomTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** db-scheduler on PostgreSQL: rows with a due time, polled and locked by executors, removed when done. */
final class DbScheduler extends Adapter {
    private static final int CONNECTIONS = 64;
    private static final int EXECUTORS = 48;

    private static final String[] TABLES = {
        "create table scheduled_tasks (task_name text not null, task_instance text not null, task_data bytea, "
                + "execution_time timestamp with time zone not null, picked boolean not null, picked_by text, "
                + "last_success timestamp with time zone, last_failure timestamp with time zone, "
                + "consecutive_failures int, last_heartbeat timestamp with time zone, version bigint not null, "
                + "priority smallint, primary key (task_name, task_instance))",
        "create index execution_time_idx on scheduled_tasks (execution_time)",
        "create index last_heartbeat_idx on scheduled_tasks (last_heartbeat)",
    };

    private final HikariDataSource source;
    private final CustomTask<byte[]> task;
    private final SchedulerClient client;
    private final ExecutorService singles = Executors.newFixedThreadPool(CONNECTIONS);
    private Scheduler scheduler;

    private DbScheduler(String address) throws Exception {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://" + address + "/postgres?reWriteBatchedInserts=true");
        config.setUsername("postgres");
        config.setMaximumPoolSize(CONNECTIONS);
        source = new HikariDataSource(config);
        try (Connection connection = source.getConnection();
                Statement statement = connection.createStatement()) {
            for (String table : TABLES) {
                statement.execute(table);
            }
        }
        task = Tasks.custom("timer", byte[].class).execute((instance, context) -> {
            long received = micros();
            long id = id(instance.getData());
            return (complete, operations) -> {
                operations.remove();
                came(id, received);
            };
        });
        client = SchedulerClient.Builder.create(source, task).build();
    }

    private TaskInstance<byte[]> instance(Task one) {
        return task.instance(Long.toString(one.id()), one.body());
    }

    @Override
    void register(List<Task> tasks, boolean batched) throws Exception {
        if (batched) {
            List<SchedulableInstance<?>> all = new ArrayList<>(tasks.size());
            for (Task one : tasks) {
                all.add(SchedulableInstance.of(instance(one), Instant.ofEpochMilli(one.due())));
            }
            client.scheduleBatch(all);
            return;
        }
        List<Future<?>> under = new ArrayList<>(tasks.size());
        for (Task one : tasks) {
            under.add(singles.submit(() -> client.schedule(instance(one), Instant.ofEpochMilli(one.due()))));
        }
        for (Future<?> future : under) {
            future.get();
        }
    }

    @Override
    synchronized void consume() {
        if (scheduler == null) {
            scheduler = Scheduler.create(source, task)
                    .threads(EXECUTORS)
                    .pollingInterval(Duration.ofMillis(100))
                    .pollUsingLockAndFetch(0.5, 4.0)
                    .build();
            scheduler.start();
        }
    }

    @Override
    long pending() throws Exception {
        try (Connection connection = source.getConnection();
                Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery("select count(*) from scheduled_tasks")) {
            found.next();
            return found.getLong(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        new DbScheduler(arguments[0]).serve(arguments[1]);
    }
}
