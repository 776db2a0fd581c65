package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// shopZone is the shop's own time zone, that of Jakarta: seven hours ahead of UTC, with no clock
// changes since 1964.
var shopZone = time.FixedZone("WIB", 7*60*60)

const day = 24 * time.Hour

// The number of orders of a day.
const (
	leastOrders = 5
	mostOrders  = 40
)

// maximumCents is the largest total: 99,999.99, or ten digits in all with room to spare in the
// numeric(14,2) that the pipeline declares.
const maximumCents = 99_999_99

// customers is the number of the shop's customers.
const customers = 400

// marketplaceBase is added to the ids of orders from the marketplace. Beyond 2^53 a float64 holds even
// numbers only, and these ids are odd: whoever reads them as floating point gets another id.
const marketplaceBase = 1<<53 + 1

// order is one order as the API shows it.
type order struct {
	ID        int64     `json:"id"`
	CreatedAt timestamp `json:"created_at"`
	Customer  string    `json:"customer"` // digits with leading zeros: text that looks like a number
	Total     amount    `json:"total"`
}

// timestamp is shown in the shop's zone, with its offset and milliseconds.
type timestamp struct{ time.Time }

// MarshalJSON writes RFC 3339 with exactly three digits of a second.
func (t timestamp) MarshalJSON() ([]byte, error) {
	return t.In(shopZone).AppendFormat(nil, `"2006-01-02T15:04:05.000-07:00"`), nil
}

// amount is money in hundredths.
type amount int64

// MarshalJSON writes a number with exactly two decimals, such as 12.50.
func (a amount) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%02d", a/100, a%100), nil
}

// catalogue knows the orders of every day.
type catalogue struct {
	// closed holds the days without orders, as 2006-01-02.
	closed map[string]bool
}

// between returns the orders with from <= created_at < to, oldest first.
func (c catalogue) between(from, to time.Time) []order {
	var found []order
	for date := midnight(from); date.Before(to); date = date.Add(day) {
		for _, each := range c.on(date) {
			if !each.CreatedAt.Before(from) && each.CreatedAt.Before(to) {
				found = append(found, each)
			}
		}
	}
	return found
}

// midnight is the start of the shop's day in which t lies.
func midnight(t time.Time) time.Time {
	year, month, date := t.In(shopZone).Date()
	return time.Date(year, month, date, 0, 0, 0, 0, shopZone)
}

// on returns the orders of the day that starts at date. The first comes exactly at midnight and the
// last in the day's last millisecond, where half-open intervals are told from others.
func (c catalogue) on(date time.Time) []order {
	if c.closed[date.Format(time.DateOnly)] {
		return nil
	}
	number := date.Unix() / int64(day/time.Second)
	source := rand.NewPCG(uint64(number), 0)
	// A remainder, and not a method of rand.Rand: the numbers of the generator are specified, the way
	// rand.Rand makes smaller ones of them is not.
	below := func(n int64) int64 { return int64(source.Uint64() % uint64(n)) }

	orders := make([]order, leastOrders+below(mostOrders-leastOrders+1))
	for i := range orders {
		orders[i] = order{
			CreatedAt: timestamp{date.Add(time.Duration(below(int64(day/time.Millisecond))) * time.Millisecond)},
			Customer:  fmt.Sprintf("%06d", 1+below(customers)),
			Total:     amount(1 + below(maximumCents)),
		}
	}
	orders[0].CreatedAt = timestamp{date}
	orders[1].CreatedAt = timestamp{date.Add(day - time.Millisecond)}
	slices.SortStableFunc(orders, func(a, b order) int { return a.CreatedAt.Compare(b.CreatedAt.Time) })
	for i := range orders {
		orders[i].ID = orderID(number, int64(i+1))
	}
	return orders
}

// orderID is unique over all days: a day has far fewer than a thousand orders. Every fifth order is one
// from the marketplace.
func orderID(dayNumber, n int64) int64 {
	id := dayNumber*1000 + n
	if n%5 == 0 {
		return marketplaceBase + 2*id
	}
	return id
}

// parseDay reads a day as 2006-01-02.
func parseDay(text string) (string, error) {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return "", fmt.Errorf("%s is not a day, such as 2026-01-18", strconv.Quote(text))
	}
	return text, nil
}
