import type { JSX } from 'preact'
import { Field, Select } from '../../parts/form.js'
import type { LabJob, LoadFile } from '../lab-job.js'
import { type FileDraft, FileForm, readFirst } from './file-form.js'
import type { MadeLoad } from './made-load.js'

/** Where a load comes from. */
export type Source = LabJob['load']['kind']

const fields: readonly (readonly [name: keyof MadeLoad, label: string])[] = [
  ['requests', 'Requests'],
  ['rate', 'Requests per second'],
  ['promptTokens', 'Prompt tokens'],
  ['answerTokens', 'Answer tokens'],
  ['sharedTokens', 'Shared prefix tokens'],
  ['tenants', 'Tenants'],
  ['seed', 'Seed'],
]

const sources: readonly (readonly [source: Source, text: string])[] = [
  ['made', 'synthetic load'],
  ['recording', "this server's last minutes"],
  ['file', 'a file'],
]

const recorded = ['recorded', 'as recorded'] as const
/** The machines of the simulation, and what they stand for. */
const machines: readonly (readonly [name: string, about: string])[] = [
  ['gpu-8b', '8B on a large GPU'],
  ['two-cores', '0.6B on two CPU cores'],
]

/** What to run: the last minutes of the server, a file or a made load, and on which machine. */
export function LoadForm(props: {
  readonly source: Source
  readonly made: MadeLoad
  readonly file: FileDraft
  readonly machine: string
  readonly slots: number
  readonly setSource: (source: Source) => void
  readonly setMade: (made: MadeLoad) => void
  readonly setRequests: (requests: number) => void
  /** Takes a file, which is the source then. */
  readonly onFile: (file: LoadFile) => void
  readonly setMachine: (machine: string) => void
  readonly setSlots: (slots: number) => void
}): JSX.Element {
  const { source, made, file, machine, slots, onFile } = props
  const { setSource, setMade, setRequests, setMachine, setSlots } = props
  const isRecorded =
    source === 'recording' || (source === 'file' && file.file?.isRecording === true)
  return (
    <section
      class="card"
      aria-label="Load"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault()
        void readFirst(event.dataTransfer?.files).then((file) => file && onFile(file))
      }}
    >
      <h2>Load</h2>
      <div class="fields">
        <Select<Source> label="Source" value={source} options={sources} onChoose={setSource} />
        <Select
          label="Machine"
          value={machine}
          options={isRecorded ? [recorded, ...machines] : machines}
          onChoose={setMachine}
        />
        <Field
          label="Slots"
          type="number"
          min="1"
          max="256"
          value={slots}
          onText={(text) => setSlots(Number(text))}
        />
        {source === 'file' && <FileForm draft={file} onFile={onFile} onRequests={setRequests} />}
        {source === 'made' &&
          fields.map(([name, label]) => (
            <Field
              key={name}
              label={label}
              type="number"
              min={name === 'sharedTokens' ? 0 : name === 'rate' ? 0.01 : 1}
              step={name === 'rate' ? 'any' : 1}
              value={made[name]}
              onText={(text) => setMade({ ...made, [name]: Number(text) })}
            />
          ))}
      </div>
    </section>
  )
}
