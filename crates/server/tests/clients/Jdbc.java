import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
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

    public static void main(String[] arguments) throws SQLException {
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
            equal(connection.getMetaData().getDatabaseProductName(), "PostgreSQL");
        }
        System.out.println("done");
    }
}
