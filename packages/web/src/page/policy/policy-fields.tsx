import type { PolicySetting } from '@cllm/core'
import { useState } from 'preact/hooks'
import policies, { type OptionField } from 'virtual:policies'
import { Check, Field, Select } from '../parts/form.js'
import { parsedJson } from '../parts/format.js'

/** The names of the built-in batchings and orders. */
export const halves = {
  batchings: policies.batchings.map(({ name }) => name),
  orders: policies.orders.map(({ name }) => name),
}

/** The names of a policy's batching and order; a plug-in's policy may have no order of its own. */
function halvesOf(policy: string): readonly [batching: string, order: string | undefined] {
  const [batching = '', order] = policy.split('+')
  return [batching, order]
}

interface PolicyFieldsProps {
  /** The chosen policy; absent options have their defaults. */
  readonly draft: PolicySetting
  /** The names of the policies that can be chosen. */
  readonly available: readonly string[]
  /** The policy's place among several, for the labels. */
  readonly of?: string
  /** The defaults of a plug-in's policy. */
  readonly defaultsOf?: (policy: string) => Readonly<Record<string, unknown>>
  readonly onChange: (draft: PolicySetting) => void
}

/** Chooses a policy's batching and order, with a description of each, and its options. */
export function PolicyFields(props: PolicyFieldsProps) {
  const { draft, available, of = '', defaultsOf = () => ({}), onChange } = props
  const { policy, options } = draft
  const [batching, order] = halvesOf(policy)
  const batchings = [...new Set(available.map((name) => halvesOf(name)[0]))]
  const orders = available.flatMap((name) => {
    const [own, other] = halvesOf(name)
    return own === batching && other !== undefined ? [other] : []
  })
  const known = [
    ...policies.batchings.filter(({ name }) => name === batching),
    ...policies.orders.filter(({ name }) => name === order),
  ]
  const fields: Readonly<Record<string, OptionField>> = {
    ...Object.fromEntries(
      Object.entries(defaultsOf(policy)).map(([name, value]) => [name, { default: value }]),
    ),
    ...known[0]?.fields,
    ...known[1]?.fields,
  }
  const choose = (next: string): void => {
    const names = available.filter((name) => halvesOf(name)[0] === halvesOf(next)[0])
    onChange({ policy: available.includes(next) ? next : (names[0] ?? next), options: {} })
  }
  const named = (half: string): string => (of === '' ? half : `${half} of ${of}`)
  return (
    <>
      <div class="fields">
        <Select
          label={named('Batching')}
          value={batching}
          options={batchings}
          onChoose={(next) => choose(order === undefined ? next : `${next}+${order}`)}
        />
        {orders.length > 0 && (
          <Select
            label={named('Order')}
            value={order ?? ''}
            options={orders}
            onChoose={(next) => choose(`${batching}+${next}`)}
          />
        )}
      </div>
      {known.map(({ name, doc }) => (
        <p class="hint about" key={name}>
          <strong>{name}</strong>: {doc}
        </p>
      ))}
      {Object.keys(fields).length > 0 && (
        <details>
          <summary>{named('Options')}</summary>
          <div class="fields">
            {Object.entries(fields).map(([name, field]) => (
              <Option
                key={`${policy} ${name}`}
                {...{ name, field }}
                value={options[name]}
                onChange={(value) => {
                  const { [name]: _, ...others } = options
                  onChange({
                    policy,
                    options: value === undefined ? others : { ...others, [name]: value },
                  })
                }}
              />
            ))}
          </div>
        </details>
      )}
    </>
  )
}

interface OptionProps {
  readonly name: string
  readonly field: OptionField
  readonly value: unknown
  /** Called with the option's value; undefined: the default. */
  readonly onChange: (value: unknown) => void
}

/** The input of one option, by its type: a checkbox, a number, or JSON. */
function Option({ name, field, value, onChange }: OptionProps) {
  const { description, default: usual, type, minimum } = field
  const [typed, setTyped] = useState('')
  // The typed text is shown as long as it stands for the value, which may have been changed elsewhere.
  const text = JSON.stringify(read(typed)) === JSON.stringify(value) ? typed : written(value)
  if (type === 'boolean') {
    const checked = Boolean(value ?? usual)
    return <Check text={name} title={description} checked={checked} onCheck={onChange} />
  }
  return (
    <Field
      label={name}
      title={description}
      {...((type === 'integer' || type === 'number') && { type: 'number', step: 'any' })}
      min={minimum}
      spellcheck={false}
      placeholder={written(usual)}
      value={text}
      onText={(next) => {
        setTyped(next)
        onChange(read(next))
      }}
    />
  )
}

const written = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value) ?? '')

/** Reads a typed text: as JSON, or else as a string, which the server may refuse. */
const read = (typed: string): unknown =>
  typed.trim() === '' ? undefined : parsedJson(typed, typed)
