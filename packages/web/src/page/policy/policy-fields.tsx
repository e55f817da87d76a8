import type { PolicySetting } from '@cllm/core'
import { useState } from 'preact/hooks'
import policies, { type OptionField } from 'virtual:policies'
import { Check, Field, Select } from '../parts/form.js'

/** The names of the built-in policies' halves. */
export const halves = {
  batchings: policies.batchings.map(({ name }) => name),
  orders: policies.orders.map(({ name }) => name),
}

/** The names of both halves; a policy of a plug-in may be whole. */
function halvesOf(policy: string): readonly [batching: string, order: string | undefined] {
  const [batching = '', order] = policy.split('+')
  return [batching, order]
}

interface PolicyFieldsProps {
  /** Options that are absent have their defaults. */
  readonly draft: PolicySetting
  /** The names of all that can be chosen. */
  readonly available: readonly string[]
  /** Which one it is, for the labels. */
  readonly of?: string
  /** The defaults of a policy that is not built in. */
  readonly defaultsOf?: (policy: string) => Readonly<Record<string, unknown>>
  readonly onChange: (draft: PolicySetting) => void
}

/** Chooses a policy by its halves, each with what it does, and fills in its options. */
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
  /** Tells its value; undefined: the default. */
  readonly onChange: (value: unknown) => void
}

/** One option, as what it is: yes or no, a number, or JSON. */
function Option({ name, field, value, onChange }: OptionProps) {
  const { description, default: usual, type, minimum } = field
  const [typed, setTyped] = useState('')
  // What was typed says more than its value, which may have been changed otherwise since.
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

/** What was typed: JSON, or else a text, which the server may refuse. */
function read(typed: string): unknown {
  if (typed.trim() === '') return undefined
  try {
    return JSON.parse(typed) as unknown
  } catch {
    return typed
  }
}
