import { Automata } from './automata.js'
import { LinearPattern } from './linear-pattern.js'
import { PatternProblem } from './parse-pattern.js'

/**
 * Whether a pattern matches anywhere in a text.
 * @param spend - called with the number of steps before they are done
 */
export type PatternTest = (text: string, spend: (steps: number) => void) => boolean

/**
 * A test that takes time linear in the text, with look-ahead where the pattern begins.
 * @throws PatternProblem if no automaton can do it
 */
export function patternTest(pattern: string): PatternTest {
  try {
    const linear = new LinearPattern(pattern)
    return (text, spend) => linear.test(text, spend)
  } catch (error) {
    if (!(error instanceof PatternProblem)) throw error
    let automata: Automata
    try {
      automata = new Automata([pattern])
    } catch (second) {
      throw second instanceof PatternProblem ? error : second
    }
    return (text, spend) => {
      const codes = Array.from(text, (character) => character.codePointAt(0) ?? 0)
      let reading = automata.start
      for (const code of codes) {
        spend(1 + reading.sets.reduce((sum, set) => sum + set.length, 0))
        reading = automata.after(reading, code)
      }
      return automata.isEnd(reading)
    }
  }
}
