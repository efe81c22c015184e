;; The rows of a key whose value is larger than the last one of the key, with the number of rises: two columns (i64) out.
;; A value below -100 is a trap; -1 makes the key be forgotten.
(module
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 1024))

  (func $allocate (export "tidemill_allocate") (param $bytes i32) (result i32) (local $place i32)
    (local.set $place (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $place) (local.get $bytes)))
    (block $enough
      (br_if $enough (i32.le_u (global.get $free) (i32.shl (memory.size) (i32.const 16))))
      (drop (memory.grow (i32.add (i32.shr_u (local.get $bytes) (i32.const 16)) (i32.const 1)))))
    (local.get $place))

  (func $value (param $column i32) (param $row i32) (result i32)
    (i32.add (i32.load offset=4 (local.get $column)) (i32.shl (local.get $row) (i32.const 3))))

  (func $valid (param $column i32) (param $row i32) (result i32)
    (i32.add (i32.load (local.get $column)) (local.get $row)))

  ;; The arguments are the key and the value; the state is the last value and the number of rises.
  (func (export "rises") (param $rows i32) (param $arguments i32) (param $groups i32) (param i32) (param $states i32)
      (param $output i32)
    (local $row i32) (local $group i32) (local $now i64) (local $last i32) (local $count i32) (local $given i32)
    (local $counts i32) (local $from i32) (local $values i32) (local $rise i32)
    (local.set $from (call $allocate (i32.shl (local.get $rows) (i32.const 2))))
    (local.set $values (call $allocate (i32.shl (local.get $rows) (i32.const 3))))
    (local.set $rise (call $allocate (i32.shl (local.get $rows) (i32.const 3))))
    (i32.store offset=4 (local.get $output) (local.get $from))
    (i32.store offset=12 (local.get $output) (local.get $values))
    (i32.store offset=24 (local.get $output) (local.get $rise))
    (local.set $counts (i32.add (local.get $states) (i32.const 12)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
      (local.set $group (i32.load (i32.add (local.get $groups) (i32.shl (local.get $row) (i32.const 2)))))
      (local.set $now
        (i64.load (call $value (i32.add (local.get $arguments) (i32.const 12)) (local.get $row))))
      (if (i64.lt_s (local.get $now) (i64.const -100)) (then unreachable))
      (local.set $last (call $value (local.get $states) (local.get $group)))
      (local.set $count (call $value (local.get $counts) (local.get $group)))
      (if (i32.and
            (i32.load8_u (call $valid (local.get $states) (local.get $group)))
            (i64.gt_s (local.get $now) (i64.load (local.get $last))))
        (then
          (i64.store (local.get $count) (i64.add (i64.load (local.get $count)) (i64.const 1)))
          (i32.store (i32.add (local.get $from) (i32.shl (local.get $given) (i32.const 2))) (local.get $row))
          (i64.store (i32.add (local.get $values) (i32.shl (local.get $given) (i32.const 3))) (local.get $now))
          (i64.store (i32.add (local.get $rise) (i32.shl (local.get $given) (i32.const 3)))
            (i64.load (local.get $count)))
          (local.set $given (i32.add (local.get $given) (i32.const 1)))))
      (i64.store (local.get $last) (local.get $now))
      (i32.store8 (call $valid (local.get $states) (local.get $group)) (i32.const 1))
      (i32.store8 (call $valid (local.get $counts) (local.get $group)) (i32.const 1))
      (if (i64.eq (local.get $now) (i64.const -1)) (then
        (i64.store (local.get $count) (i64.const 0))
        (i32.store8 (call $valid (local.get $states) (local.get $group)) (i32.const 0))
        (i32.store8 (call $valid (local.get $counts) (local.get $group)) (i32.const 0))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br $next)))
    (i32.store (local.get $output) (local.get $given))))
