import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.sql.Wrapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** What a program with JDBC does with a server: parameters, values, errors, transactions, and a subscription. */
public class Jdbc {
    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) {
            values.add(rows.getString(name));
        }
        return values;
    }

    static void values(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(
                "SELECT CAST(? AS BIGINT) AS l, CAST(? AS DOUBLE) AS d, CAST(? AS VARCHAR) AS s, CAST(? AS BOOLEAN) AS b, "
                + "CAST(? AS DECIMAL(10, 2)) AS n, CAST(? AS DATE) AS day, CAST(? AS TIMESTAMP) AS at, CAST(? AS INTEGER) AS i, "
                + "CAST(? AS SMALLINT) AS h, CAST(? AS BYTEA) AS x")) {
            // From the fifth execution on, the statement is prepared on the server and values come in binary form.
            for (int round = 0; round < 8; round++) {
                boolean isNull = round % 2 == 1;
                statement.setLong(1, -(1L << 40) + round);
                statement.setDouble(2, 0.1);
                statement.setString(3, "it's ö; --");
                statement.setBoolean(4, true);
                statement.setBigDecimal(5, new BigDecimal("-0.50"));
                statement.setDate(6, Date.valueOf("1969-12-31"));
                statement.setTimestamp(7, Timestamp.valueOf("2026-11-22 17:05:00.25"));
                if (isNull) {
                    statement.setNull(8, Types.INTEGER);
                } else {
                    statement.setInt(8, round);
                }
                statement.setShort(9, (short) -3);
                statement.setBytes(10, new byte[] {0, 39, -1});
                try (ResultSet row = statement.executeQuery()) {
                    equal(row.next(), true);
                    equal(row.getLong("l"), -(1L << 40) + round);
                    equal(row.getDouble("d"), 0.1);
                    equal(row.getString("s"), "it's ö; --");
                    equal(row.getBoolean("b"), true);
                    equal(row.getBigDecimal("n"), new BigDecimal("-0.50"));
                    equal(row.getDate("day"), Date.valueOf("1969-12-31"));
                    equal(row.getTimestamp("at"), Timestamp.valueOf("2026-11-22 17:05:00.25"));
                    equal(row.getObject("i"), isNull ? null : round);
                    equal(row.getShort("h"), (short) -3);
                    equal(row.getBytes("x")[2], (byte) -1);
                    equal(row.next(), false);
                }
            }
        }
    }

    static void reads(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(
                "SELECT id, name FROM prices WHERE price > ? ORDER BY id LIMIT ?")) {
            statement.setDouble(1, 2.0);
            statement.setInt(2, 2);
            equal(statement.getMetaData().getColumnTypeName(1), "int8");
            equal(column(statement.executeQuery(), "name"), List.of("pear", "plum"));
        }
        // From the fifth time on, the driver prepares the statement on the server, by a name.
        try (PreparedStatement statement = connection.prepareStatement(
                "SELECT st_distance(st_point(?, ?), st_point(price, 0)) AS far, upper(?) FROM prices WHERE id = ?")) {
            for (int time = 0; time < 8; time++) {
                statement.setDouble(1, 1.5);
                statement.setDouble(2, time);
                statement.setString(3, "tide");
                statement.setLong(4, 1);
                try (ResultSet row = statement.executeQuery()) {
                    equal(row.next(), true);
                    equal(row.getDouble("far"), (double) time);
                    equal(row.getString(2), "TIDE");
                }
            }
        }
        connection.setAutoCommit(false);
        connection.setReadOnly(true);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(1);
            equal(column(statement.executeQuery("SELECT name FROM prices ORDER BY id"), "name"), List.of("apple", "pear", "plum"));
            // Rows of a subscription come as they are there; closing it ends it.
            ResultSet changes = statement.executeQuery("SUBSCRIBE TO prices");
            equal(changes.next(), true);
            equal(changes.getString("change"), "insert");
            equal(changes.next(), true);
        }
        connection.commit();
        connection.setReadOnly(false);
        connection.setAutoCommit(true);
    }

    static void fails(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            try {
                statement.executeQuery("SELECT nope FROM prices");
                throw new AssertionError("it is wrong");
            } catch (SQLException error) {
                equal(error.getSQLState(), "42703");
            }
            statement.setQueryTimeout(1);
            try {
                statement.executeQuery("SELECT value FROM sequence(rate => 10) WHERE value < 0");
                throw new AssertionError("it has no end");
            } catch (SQLException error) {
                equal(error.getSQLState(), "57014");
            }
        }
    }

    /** The values of some columns of all rows, one text for each row. */
    static List<String> rows(ResultSet rows, String... columns) throws SQLException {
        List<String> texts = new ArrayList<>();
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            for (String column : columns) {
                values.add(String.valueOf(rows.getObject(column)));
            }
            texts.add(String.join(" ", values));
        }
        return texts;
    }

    static void inspects(Connection connection) throws SQLException {
        DatabaseMetaData known = connection.getMetaData();
        equal(rows(known.getSchemas(), "TABLE_SCHEM"), List.of("information_schema", "pg_catalog", "public"));
        equal(rows(known.getCatalogs(), "TABLE_CAT"), List.of("tidemill"));
        equal(rows(known.getTables(null, "public", "%", new String[] {"TABLE", "VIEW", "MATERIALIZED VIEW"}), "TABLE_NAME",
            "TABLE_TYPE"), List.of("newest MATERIALIZED VIEW", "prices MATERIALIZED VIEW", "totals MATERIALIZED VIEW",
            "visits MATERIALIZED VIEW", "prices_in TABLE", "Dear Ones VIEW"));
        equal(rows(known.getTables(null, null, "pri%", new String[] {"TABLE"}), "TABLE_NAME"), List.of("prices_in"));
        equal(rows(known.getColumns(null, "public", "prices", "%"), "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "NULLABLE",
            "IS_NULLABLE", "ORDINAL_POSITION"), List.of(
            "id int8 -5 0 NO 1", "price float8 8 1 YES 2", "name text 12 1 YES 3"));
        equal(rows(known.getColumns(null, null, "Dear Ones", "p%"), "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE"),
            List.of("pair _float8 2003"));

        equal(rows(known.getPrimaryKeys(null, "public", "newest"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
            List.of("id 1 newest_pkey"));
        // A key whose values can be NULL identifies rows, but is no primary key.
        equal(rows(known.getPrimaryKeys(null, null, "totals"), "COLUMN_NAME"), List.of());
        equal(rows(known.getIndexInfo(null, null, "totals", true, false), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME",
            "ORDINAL_POSITION", "ASC_OR_DESC"), List.of("totals_name_id_key false name 1 A", "totals_name_id_key false id 2 A"));
        equal(rows(known.getIndexInfo(null, null, "visits", false, false), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME"),
            List.of("visits_name_idx true name"));
        equal(rows(known.getIndexInfo(null, null, "visits", true, false), "INDEX_NAME"), List.of());
        equal(rows(known.getBestRowIdentifier(null, null, "newest", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME",
            "TYPE_NAME"), List.of("id int8"));
        equal(rows(known.getImportedKeys(null, null, "newest"), "FKCOLUMN_NAME"), List.of());
        equal(rows(known.getExportedKeys(null, null, "newest"), "FKCOLUMN_NAME"), List.of());

        List<String> types = rows(known.getTypeInfo(), "TYPE_NAME", "DATA_TYPE");
        for (String type : List.of("int8 -5", "float8 8", "text 12", "bool -7", "timestamp 93", "_float8 2003", "interval 1111")) {
            equal(types.contains(type) ? type : types, type);
        }
        equal(rows(known.getTableTypes(), "TABLE_TYPE").contains("MATERIALIZED VIEW"), true);
        equal(rows(known.getFunctions(null, "public", "%"), "FUNCTION_NAME"), List.of());
        equal(rows(known.getTablePrivileges(null, null, "prices"), "TABLE_NAME").isEmpty(), false);
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT [price, 2.5] AS pair FROM prices WHERE id = 1")) {
            equal(row.next(), true);
            equal(List.of((Object[]) row.getArray(1).getArray()), List.of(1.5, 2.5));
        }
    }

    /** Calls every method of the description of the database. What the driver itself does not have is left out. */
    static void asksEverything(DatabaseMetaData known) throws ReflectiveOperationException, SQLException {
        for (Method method : DatabaseMetaData.class.getMethods()) {
            if (method.getDeclaringClass() == Wrapper.class) {
                continue;
            }
            // Texts are, in their order: the catalogue, the schema, the table, and a column.
            String[] names = {null, "public", "newest", null, "public", "newest"};
            Object[] arguments = new Object[method.getParameterCount()];
            int texts = 0;
            for (int at = 0; at < arguments.length; at++) {
                Class<?> type = method.getParameterTypes()[at];
                arguments[at] = type == int.class ? (Object) 1 : type == boolean.class ? (Object) false : null;
                if (type == String.class) {
                    arguments[at] = texts == 3 && arguments.length < 6 ? "%" : names[texts];
                    texts++;
                }
            }
            try {
                if (method.invoke(known, arguments) instanceof ResultSet rows) {
                    while (rows.next()) {
                        for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                            rows.getObject(column);
                        }
                    }
                }
            } catch (InvocationTargetException error) {
                String message = error.getCause().getMessage();
                if (!message.contains("not yet implemented")) {
                    throw new AssertionError(method.getName() + ": " + message, error.getCause());
                }
            }
        }
    }

    /** Tables of its own, and what a transaction leaves of them. */
    static void keepsTables(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE made_by_java (id INTEGER NOT NULL, at TIMESTAMP)");
            connection.rollback();
            statement.execute("CREATE TABLE made_by_java (id INTEGER NOT NULL, at TIMESTAMP)");
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO made_by_java (id, at) VALUES (?, ?)")) {
            for (int id = 0; id < 3; id++) {
                insert.setInt(1, id);
                insert.setTimestamp(2, Timestamp.valueOf("2026-01-01 00:00:00"));
                insert.addBatch();
            }
            equal(insert.executeBatch().length, 3);
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            equal(column(statement.executeQuery("SELECT count(*) AS n FROM made_by_java"), "n"), List.of("3"));
            statement.execute("DROP TABLE made_by_java");
        }
    }

    public static void main(String[] arguments) throws SQLException, ReflectiveOperationException {
        String address = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/db?user=ada&password=";
        try {
            DriverManager.getConnection(address + "wrong");
            throw new AssertionError("it is the wrong password");
        } catch (SQLException error) {
            equal(error.getSQLState(), "28P01");
        }
        try (Connection connection = DriverManager.getConnection(address + arguments[1])) {
            equal(connection.isValid(5), true);
            values(connection);
            reads(connection);
            fails(connection);
            inspects(connection);
            asksEverything(connection.getMetaData());
            keepsTables(connection);
            equal(connection.getMetaData().getDatabaseProductName(), "PostgreSQL");
        }
        System.out.println("done");
    }
}
