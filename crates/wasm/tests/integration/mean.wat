;; The mean of numbers: its state is a number of rows (i64) and their sum (f64). A negative number is a trap.
(module
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 1024))

  (func (export "tidemill_allocate") (param $bytes i32) (result i32) (local $place i32)
    (local.set $place (global.get $free))
    (global.set $free (i32.add (local.get $place) (local.get $bytes)))
    (block $enough
      (br_if $enough (i32.le_u (global.get $free) (i32.shl (memory.size) (i32.const 16))))
      (drop (memory.grow (i32.add (i32.shr_u (local.get $bytes) (i32.const 16)) (i32.const 1)))))
    (local.get $place))

  (func $is_null (param $column i32) (param $row i32) (result i32) (local $validity i32)
    (local.set $validity (i32.load (local.get $column)))
    (if (result i32) (i32.eqz (local.get $validity))
      (then (i32.const 0))
      (else (i32.eqz (i32.load8_u (i32.add (local.get $validity) (local.get $row)))))))

  ;; Where the value of a row of a column of 8 bytes stands.
  (func $value (param $column i32) (param $row i32) (result i32)
    (i32.add (i32.load offset=4 (local.get $column)) (i32.shl (local.get $row) (i32.const 3))))

  ;; Adds a number of rows and their sum to the state of a group.
  (func $add (param $states i32) (param $group i32) (param $count i64) (param $sum f64)
    (local $counted i32) (local $summed i32)
    (i32.store8 (i32.add (i32.load (local.get $states)) (local.get $group)) (i32.const 1))
    (i32.store8 (i32.add (i32.load offset=12 (local.get $states)) (local.get $group)) (i32.const 1))
    (local.set $counted (call $value (local.get $states) (local.get $group)))
    (local.set $summed (call $value (i32.add (local.get $states) (i32.const 12)) (local.get $group)))
    (i64.store (local.get $counted) (i64.add (i64.load (local.get $counted)) (local.get $count)))
    (f64.store (local.get $summed) (f64.add (f64.load (local.get $summed)) (local.get $sum))))

  (func $group (param $groups i32) (param $row i32) (result i32)
    (i32.load (i32.add (local.get $groups) (i32.shl (local.get $row) (i32.const 2)))))

  (func (export "mean_update") (param $rows i32) (param $values i32) (param $groups i32) (param i32) (param $states i32)
    (local $row i32) (local $number f64)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
      (if (i32.eqz (call $is_null (local.get $values) (local.get $row))) (then
        (local.set $number (f64.load (call $value (local.get $values) (local.get $row))))
        (if (f64.lt (local.get $number) (f64.const 0)) (then unreachable))
        (call $add (local.get $states) (call $group (local.get $groups) (local.get $row))
          (i64.const 1) (local.get $number))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br $next))))

  (func (export "mean_merge") (param $rows i32) (param $others i32) (param $groups i32) (param i32) (param $states i32)
    (local $row i32)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
      (call $add (local.get $states) (call $group (local.get $groups) (local.get $row))
        (i64.load (call $value (local.get $others) (local.get $row)))
        (f64.load (call $value (i32.add (local.get $others) (i32.const 12)) (local.get $row))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br $next))))

  ;; Of numbers, so it is called for each group, and not for one without rows.
  (func (export "mean_result") (param $count i64) (param $sum f64) (result f64)
    (f64.div (local.get $sum) (f64.convert_i64_s (local.get $count)))))
