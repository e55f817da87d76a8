// What tap prints of a run: each file with its time, each failure with its place, and the sum. tap's own reporters draw
// the whole picture anew at each assertion, which took as long as running it.
import { StringDecoder } from 'node:string_decoder'
import { Transform } from 'node:stream'

const sum = /^# (\{|time|No coverage)|^Bail out!/
const file = /^ *ok \d+ - (\S+\.(?:test\.ts|suite\.mjs))(.*)$/
const isFailure = /^( *)not ok (?!.* # (?:TODO|SKIP))/

export default class extends Transform {
  #decoder = new StringDecoder('utf8')
  #rest = ''
  /** The names of the tests that run, from the outermost; each is indented by four spaces more. */
  #names = []
  /** The line that ends what explains a failure, while that is printed. */
  #end = ''
  #hasFailed = false

  _transform(chunk, _encoding, done) {
    const lines = (this.#rest + this.#decoder.write(chunk)).split('\n')
    this.#rest = lines.pop()
    done(null, lines.map((line) => this.#shown(line)).join(''))
  }

  _flush(done) {
    done(null, this.#shown(this.#rest))
  }

  #shown(line) {
    const failure = isFailure.exec(line)
    const depth = line.search(/\S/) / 4
    const begins = this.#hasFailed && line.trim() === '---'
    this.#hasFailed = failure !== null
    if (begins || this.#end !== '') {
      if (begins) this.#end = line.replace('---', '...')
      else if (line === this.#end) this.#end = ''
      return `${line}\n`
    }
    if (failure !== null) return `${this.#names.slice(0, depth).join(' > ')}\n${line}\n`
    const name = /^ *# Subtest: (.*)$/.exec(line)?.[1]
    if (name !== undefined) {
      // The line stands at its test's own depth, its results one deeper.
      this.#names.splice(Math.floor(depth), Infinity, name)
      return ''
    }
    const [, path, time] = file.exec(line) ?? []
    if (path !== undefined) return `${path}${time.replace('{', '')}\n`
    return sum.test(line) ? `${line}\n` : ''
  }
}
