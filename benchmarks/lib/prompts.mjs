// Fresh English prompts: no two of a run share a beginning, so no cache helps either side.
const words = `time year people way day man thing woman life child world school state family student
group country problem hand part place case week company system program question work government
number night point home water room mother area money story fact month lot right study book eye job
word business issue side kind head house service friend father power hour game line end member law
car city community name president team minute idea body information back parent face others level
office door health person art war history party result change morning reason research girl guy
moment air teacher force education run small large open quiet early young important public bad same
able green river mountain letter bridge garden winter summer engine paper music market doctor stone
make find give tell work call try ask need feel become leave put mean keep let begin seem help talk
turn start show hear play move like live believe hold bring happen write provide sit stand lose pay
meet include continue set learn lead understand watch follow stop create speak read allow add spend
grow walk win offer remember love consider appear buy wait serve die send expect build stay fall
because although while under over between through during before after without against toward`
  .split(/\s+/)
  .filter((word) => word !== '')

/** A seeded generator of numbers from 0 to 1 (mulberry32). */
export function randomOf(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let value = Math.imul(state ^ (state >>> 15), state | 1)
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61)
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296
  }
}

/** A text of so many words. */
export function text(count, random) {
  const pick = () => words[Math.floor(random() * words.length)]
  return Array.from({ length: count }, pick).join(' ')
}
