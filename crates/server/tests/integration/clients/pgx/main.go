// What a program with pgx does with a server: tables, a view with parameters, a named error, a copy.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(found, expected any) {
	if fmt.Sprint(found) != fmt.Sprint(expected) {
		panic(fmt.Sprintf("%v is not %v", found, expected))
	}
}

func main() {
	ctx := context.Background()
	address := func(password string) string {
		return fmt.Sprintf("postgres://ada:%s@127.0.0.1:%s/db?sslmode=disable", password, os.Args[1])
	}
	var told *pgconn.PgError
	_, err := pgx.Connect(ctx, address("wrong"))
	equal(errors.As(err, &told) && told.Code == "28P01", true)
	connection, err := pgx.Connect(ctx, address(os.Args[2]))
	check(err)
	defer connection.Close(ctx)

	rows, err := connection.Query(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = $1", "public")
	check(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(err)
	equal(strings.Contains(strings.Join(tables, " "), "prices"), true)

	var price float64
	var name string
	check(connection.QueryRow(ctx, "SELECT price, name FROM prices WHERE id = $1", 2).Scan(&price, &name))
	equal(fmt.Sprintf("%v %s", price, name), "2.5 pear")

	// The second time, the plan of the first one is used with other values.
	for _, x := range []float64{0, 3} {
		var far float64
		query := "SELECT st_distance(st_point($1, $2), st_point(price, 0)) FROM prices WHERE id = $3"
		check(connection.QueryRow(ctx, query, x, 0.0, 1).Scan(&far))
		equal(far, 1.5)
	}

	_, err = connection.Exec(ctx, "SELECT nope FROM prices")
	equal(errors.As(err, &told) && told.Code == "42703", true)

	var out bytes.Buffer
	tag, err := connection.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, name FROM prices ORDER BY id) TO STDOUT (FORMAT csv)")
	check(err)
	equal(tag.RowsAffected(), 3)
	equal(out.String(), "1,apple\n2,pear\n3,plum\n")
	tag, err = connection.PgConn().CopyFrom(ctx, strings.NewReader("7,0.5,seven\n"), "COPY prices_in FROM STDIN (FORMAT csv)")
	check(err)
	equal(tag.RowsAffected(), 1)

	transaction, err := connection.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	check(err)
	_, err = transaction.Exec(ctx, "DECLARE c CURSOR FOR SELECT id FROM prices ORDER BY id")
	check(err)
	rows, err = transaction.Query(ctx, "FETCH 2 FROM c")
	check(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	check(err)
	equal(ids, []int64{1, 2})
	check(transaction.Commit(ctx))
	fmt.Println("done")
}
