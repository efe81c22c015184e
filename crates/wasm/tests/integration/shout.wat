;; Texts with the letters a to z as capitals.
(module
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 1024))

  ;; Gives memory that is not used yet. Nothing is freed: each batch has an instance of its own.
  (func $allocate (export "tidemill_allocate") (param $bytes i32) (result i32) (local $place i32)
    (local.set $place (global.get $free))
    (global.set $free (i32.add (local.get $place) (local.get $bytes)))
    (block $enough
      (br_if $enough (i32.le_u (global.get $free) (i32.shl (memory.size) (i32.const 16))))
      (drop (memory.grow (i32.add (i32.shr_u (local.get $bytes) (i32.const 16)) (i32.const 1)))))
    (local.get $place))

  (func (export "f") (param $rows i32) (param $texts i32) (param $result i32)
    (local $from i32) (local $to i32) (local $end i32) (local $letter i32)
    (local.set $from (i32.load offset=4 (local.get $texts)))
    ;; The last offset is the number of bytes.
    (local.set $end (i32.add (local.get $from)
      (i32.load (i32.add (i32.load offset=8 (local.get $texts)) (i32.shl (local.get $rows) (i32.const 2))))))
    (local.set $to (call $allocate (i32.sub (local.get $end) (local.get $from))))
    ;; The result has the validity and the offsets of the argument.
    (memory.copy (local.get $result) (local.get $texts) (i32.const 12))
    (i32.store offset=4 (local.get $result) (local.get $to))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $from) (local.get $end)))
        (local.set $letter (i32.load8_u (local.get $from)))
        (if (i32.lt_u (i32.sub (local.get $letter) (i32.const 97)) (i32.const 26))
          (then (local.set $letter (i32.sub (local.get $letter) (i32.const 32)))))
        (i32.store8 (local.get $to) (local.get $letter))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (local.set $to (i32.add (local.get $to) (i32.const 1)))
        (br $next)))))
